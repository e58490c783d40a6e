"""What every guarded port has in common, whatever clients connect to it."""
