"""Structural schemas at work: what they fill in, cut off and refuse."""
