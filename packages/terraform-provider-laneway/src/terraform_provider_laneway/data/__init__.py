"""Data sources: what Terraform reads."""
