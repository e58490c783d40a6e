"""Releases what objects request, by asking the agents through them."""
