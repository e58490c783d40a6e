"""What a fleet has, what would fit if it changed, and where it is wasted: pure planning."""
