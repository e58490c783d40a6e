"""Where a new vGPU best goes among GPUs, so that large ones stay possible; proved by simulation."""
