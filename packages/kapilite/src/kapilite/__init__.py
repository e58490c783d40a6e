"""The embedded API server: a Kubernetes API surface in front of one SQLite file."""
