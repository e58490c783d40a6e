"""The Kubernetes client: requests, shared informers, work queues, events."""
