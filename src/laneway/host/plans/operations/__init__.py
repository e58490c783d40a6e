"""The operations behind every kind of step."""
