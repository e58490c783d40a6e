"""Giving a whole device to a VM: whether it can be given, and the way to vfio-pci and back."""
