"""Where objects and their history lie, and how changes reach those who wait for them."""
