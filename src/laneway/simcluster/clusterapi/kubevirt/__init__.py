"""A stand-in for Cluster API's provider for KubeVirt: KubevirtMachines become VMs."""
