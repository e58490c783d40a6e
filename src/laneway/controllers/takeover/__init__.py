"""Takes over from Harvester's controller, and gives way to it again."""
