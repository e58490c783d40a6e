"""What runs until it is stopped: the roles, and all of them at once."""
