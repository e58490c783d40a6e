"""HTTP: from a request to what is to be done, and from what was done to an answer."""
