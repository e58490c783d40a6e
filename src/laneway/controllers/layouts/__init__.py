"""VGPULayouts: one wish for many GPUs, carried out through the objects below it."""
