"""A Kubernetes API server on SQLite: its API in front of one file, or of memory alone."""
