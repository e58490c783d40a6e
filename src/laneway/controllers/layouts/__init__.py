"""VGPULayouts: one desired state for many GPUs, carried out through the objects below it."""
