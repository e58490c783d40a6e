"""GPUs that are shared: their functions and modes, GPU instances and vGPUs."""
