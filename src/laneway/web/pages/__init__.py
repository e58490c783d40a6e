"""The pages of the interface: a module for each entry of the menu."""
