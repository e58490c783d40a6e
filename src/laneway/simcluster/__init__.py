"""What a cluster has beside Laneway, for simulated nodes: kubelets, a scheduler, KubeVirt."""
