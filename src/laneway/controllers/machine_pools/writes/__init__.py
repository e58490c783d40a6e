"""What speaks against a write of a guest cluster, or of a machine configuration, before it is done.

Only what the write makes worse counts. What was wrong before and stays as it is speaks against no
write, and neither does a request for less.
"""
