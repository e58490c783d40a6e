"""The forms that bodies have, in and out, and how large they may be."""
