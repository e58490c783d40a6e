"""What may be written: one module for the rules of one kind."""
