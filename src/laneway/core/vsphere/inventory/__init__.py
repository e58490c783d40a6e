"""What vCenter has: ESXi hosts with their GPUs and vGPU profiles, and VMs."""
