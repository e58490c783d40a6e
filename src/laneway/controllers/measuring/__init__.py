"""What NVIDIA's driver measures of GPUs and vGPUs, read now and then for Prometheus."""
