"""The files by which servers and clients know each other."""
