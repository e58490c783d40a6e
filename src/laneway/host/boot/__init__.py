"""Preparing a host: what its boot loader starts, read and changed."""
