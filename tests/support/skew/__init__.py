"""Two versions of Laneway on one cluster: each part of either runs as a process of its own."""
