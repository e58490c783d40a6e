"""What speaks against a write of a guest cluster, or of a machine configuration, before it is done.

Only what the write makes worse: what was wrong before and stays as it is hinders nobody, and
neither does what asks for less.
"""
