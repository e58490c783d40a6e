"""What of a node may be allocated to pods, under which name, and what Allocate answers."""
