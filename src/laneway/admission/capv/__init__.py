"""Machines of Cluster API on vSphere: their specs, and whether a vCenter has what they request."""
