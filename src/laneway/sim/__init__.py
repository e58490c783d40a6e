"""Simulated hosts: a node's files in memory, with writes that behave like the kernel's."""
