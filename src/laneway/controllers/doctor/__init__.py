"""Looks at a cluster, for the doctor who judges it."""
