"""A stand-in for Rancher and Harvester's machine driver: guest clusters' pools become VMs.

No guest boots and no Kubernetes is installed: a machine is ready once its VM runs.
"""
