"""Preparing the nodes of a cluster, one after the other: the manager's part."""
