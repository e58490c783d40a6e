"""From what a node has to what its kubelet allocates, and the holders."""
