"""The stream of changes: one for every open page, which brings what has changed on it."""
