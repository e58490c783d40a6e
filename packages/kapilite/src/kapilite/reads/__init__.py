"""Lists and watches: which objects, and as of which moment."""
