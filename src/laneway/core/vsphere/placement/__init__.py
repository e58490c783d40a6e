"""Which host a VM goes to, and which GPUs are reserved for it there."""
