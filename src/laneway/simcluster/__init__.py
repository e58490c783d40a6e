"""What a cluster has besides Laneway, for simulated nodes: kubelets, a scheduler, KubeVirt."""
