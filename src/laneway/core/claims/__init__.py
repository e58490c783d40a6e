"""Whether claims are carried out, and how: decisions, no input or output."""
