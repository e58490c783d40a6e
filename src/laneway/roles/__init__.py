"""Composition: each role wires adapters to controllers and owns their lives."""
