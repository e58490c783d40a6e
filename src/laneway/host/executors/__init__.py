"""Where a node's programs run: `local` on the node, `pod` in the driver's pod, `choice` decides."""
