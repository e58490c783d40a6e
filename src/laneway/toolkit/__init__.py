"""The container that installs NVIDIA's vGPU host driver on its node and runs its daemons."""
