"""The OpenAPI documents that clients read the kinds from."""
