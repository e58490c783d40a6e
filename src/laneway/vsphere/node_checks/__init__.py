"""Whether the GPUs of a Machine work in the node that it became."""
