"""GPU instances: what they take, what they carry, and what to do about those of a card."""
