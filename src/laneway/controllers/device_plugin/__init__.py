"""From what a node has to what its kubelet hands out, and who has it."""
