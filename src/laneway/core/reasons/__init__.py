"""The public reasons of conditions, events and refusals."""
