"""The node's kubelet: what it hands out for Laneway, and what it says which pods have."""
