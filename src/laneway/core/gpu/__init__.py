"""Modes of a GPU as a whole: which there are, what is desired, and the way from one to another."""
