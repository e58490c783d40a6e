"""Reconcilers: read the caches, ask core what to do, act through the host and the API."""
