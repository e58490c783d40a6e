"""Which layout of modes and vGPUs serves most of a demand: an integer program, and its answer."""
