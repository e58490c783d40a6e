# A node with an A2: the GPU is shared by two vGPUs, and one VM gets a vGPU and a network port.

terraform {
  required_providers {
    laneway = {
      source = "terraform.local/laneway/laneway"
    }
  }
}

variable "kubeconfig" {
  description = "The kubeconfig file of the Harvester cluster."
  type        = string
}

variable "node" {
  description = "The node with the GPU."
  type        = string
}

variable "virtual_machine" {
  description = "A VM that exists, NAMESPACE/NAME. It gets the devices when it starts next."
  type        = string
}

provider "laneway" {
  kubeconfig = var.kubeconfig
}

resource "laneway_sriov_gpu" "a2" {
  gpu  = "${var.node}/08:00.0"
  mode = "SameSize"
}

resource "laneway_vgpu_layout" "a2" {
  name  = "${var.node}-vgpus"
  gpus  = [laneway_sriov_gpu.a2.id]
  vgpus = { "NVIDIA A2-4Q" = 2 }
}

resource "laneway_pci_claim" "port" {
  device = "${var.node}/04:00.1"
}

resource "laneway_virtual_machine_devices" "desktop" {
  namespace       = split("/", var.virtual_machine)[0]
  virtual_machine = split("/", var.virtual_machine)[1]
  devices = {
    "vgpu-0" = provider::laneway::resource_name("NVIDIA A2-4Q")
    "port-0" = laneway_pci_claim.port.resource_name
  }
  depends_on = [laneway_vgpu_layout.a2]
}

data "laneway_capacity" "after" {
  nodes      = [var.node]
  depends_on = [laneway_virtual_machine_devices.desktop]
}

output "free" {
  description = "What other VMs can still request on the node."
  value       = data.laneway_capacity.after.free
}
