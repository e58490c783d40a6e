"""Harvester's kinds, and what its VM controller does for VMs, as far as machine drivers need them.

KubeVirt is simulated next to it.
"""
