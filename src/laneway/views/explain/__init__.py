"""What is known about one thing, as a page of facts."""
