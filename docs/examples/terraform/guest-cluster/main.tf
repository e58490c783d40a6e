# A pool of three workers of a guest cluster, with a vGPU each.

terraform {
  required_providers {
    laneway = {
      source = "terraform.local/laneway/laneway"
    }
  }
}

variable "harvester_kubeconfig" {
  description = "The kubeconfig file of the Harvester cluster, which has the GPUs."
  type        = string
}

variable "rancher_kubeconfig" {
  description = "The kubeconfig file of Rancher's management cluster."
  type        = string
}

variable "cluster" {
  description = "The guest cluster."
  type        = string
}

variable "pool" {
  description = "Its machine pool for workers with GPUs."
  type        = string
}

provider "laneway" {
  kubeconfig            = var.harvester_kubeconfig
  management_kubeconfig = var.rancher_kubeconfig
}

locals {
  vgpu = provider::laneway::resource_name("NVIDIA A2-4Q")
}

# Whether the pool fits is judged when this is planned: all three workers, and the one more that
# there is while they are replaced.
data "laneway_plan" "workers" {
  cluster  = var.cluster
  pool     = var.pool
  devices  = { (local.vgpu) = 1 }
  machines = 3
}

resource "laneway_machine_pool_devices" "workers" {
  cluster  = var.cluster
  pool     = var.pool
  devices  = { (local.vgpu) = 1 }
  machines = 3
}

output "steps" {
  description = "What Rancher does."
  value       = data.laneway_plan.workers.steps
}

# Where Terraform makes the whole cluster with Rancher's provider, the pool has its vGPUs from the
# beginning: harvester_config { vgpu_info = ... } of rancher2_machine_config_v2.
output "vgpu_info" {
  description = "The same request, for rancher2_machine_config_v2."
  value       = provider::laneway::vgpu_info({ (local.vgpu) = 1 })
}
