"""`laneway export` and `laneway plan`: a fleet as a file, and what would fit if it changed."""
