"""GPUs on vSphere, decided without I/O: `spec`, `inventory`, `placement` and `provisioning`."""
