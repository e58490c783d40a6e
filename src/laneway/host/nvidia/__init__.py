"""What NVIDIA's programs say about GPUs."""
