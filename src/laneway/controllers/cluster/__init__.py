"""What concerns the whole cluster and therefore has one writer: the manager that leads."""
