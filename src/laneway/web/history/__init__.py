"""The history of holders: recorded from the caches, kept in a file, read by page and API."""
