"""The node: sysfs, PCI, IOMMU, vGPU, USB and the kernel's events, all through one small port."""
