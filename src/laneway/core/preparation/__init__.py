"""What a host must be like before it can give devices to VMs, and the steps that lead there."""
