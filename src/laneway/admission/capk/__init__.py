"""Machines of Cluster API on KubeVirt: whether the nodes have the devices of their VMs."""
