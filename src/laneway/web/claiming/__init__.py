"""What the pages of PCI devices and of USB devices have in common: devices that users claim."""
