"""`laneway host`: one machine's devices, changed without any cluster."""
