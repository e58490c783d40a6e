"""Machine pools of a Rancher management cluster, and the VMs of Harvester that they are."""
