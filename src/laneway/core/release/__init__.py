"""What releases devices to their nodes: one device, or everything that objects request."""
