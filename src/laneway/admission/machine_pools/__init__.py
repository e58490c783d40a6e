"""Admission in Rancher's management cluster: guest clusters and their machine configurations."""
