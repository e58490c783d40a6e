"""The generated pages of `docs/reference/`, made from the program: they cannot differ from it."""
