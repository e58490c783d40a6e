"""What every guarded port has in common, whoever connects to it."""
