"""How NVIDIA's vGPU host driver comes onto a node: settings, decisions, what failures say."""
