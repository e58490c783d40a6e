"""Resources: what Terraform creates, changes and destroys."""
