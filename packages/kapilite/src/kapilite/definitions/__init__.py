"""CustomResourceDefinitions: which are accepted, and the kinds that they make."""
