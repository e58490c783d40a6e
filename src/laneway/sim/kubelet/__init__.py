"""A stand-in for the part of a kubelet that gives devices to containers.

Written from the kubelet's protocols and its device manager (Kubernetes 1.26 to 1.35), not from
Laneway's side of them, so that what serves this serves a real one. Where kubelets have a habit
that plugins must cope with, this one has it too.
"""
