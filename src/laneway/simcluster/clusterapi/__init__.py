"""Cluster API's core, as far as one machine can play it, and the guests of the machines it made."""
