"""What a Kubernetes API server and its clients have in common."""
