"""What the measurements have in common. Nothing in here measures."""
