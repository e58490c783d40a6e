"""A stand-in for Harvester itself: its kinds as far as machine drivers use them, and VMs' volumes.

Nothing is stored in a volume, and no image is imported. An image is what its status says.
"""
