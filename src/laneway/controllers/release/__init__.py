"""Gives back what objects ask for, by asking the agents through them."""
