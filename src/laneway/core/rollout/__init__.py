"""When nodes that need a reboot get it: pure decisions, one node at a time."""
