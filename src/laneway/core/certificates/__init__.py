"""Certificates of Laneway's own servers: how they are made, and when they are changed for others.

Only servers that make certificates import this; `cryptography` has no place in an agent.
"""
