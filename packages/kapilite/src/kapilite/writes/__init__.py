"""Create, replace, patch, apply and delete: one object, one transaction."""
