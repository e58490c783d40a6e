"""What the tests of several folders share."""
