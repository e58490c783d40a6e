"""Resources and namespaces that other parts of the server know by name."""

from __future__ import annotations

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACES = "namespaces"
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PROTECTED_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
