"""Preparing one node: the agent's part."""
