"""The node's kubelet: what it allocates for Laneway, and what it says which pods have."""
