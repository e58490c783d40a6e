"""Laneway: GPUs, and any PCI device, from the slot to the virtual machine."""
