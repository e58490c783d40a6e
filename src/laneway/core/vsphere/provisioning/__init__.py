"""How a VM gets to its desired state: one step after the other."""
