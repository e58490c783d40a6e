"""What the tests of the API server share, and those of its clients."""
