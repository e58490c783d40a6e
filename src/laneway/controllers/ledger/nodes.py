"""On which nodes something new can start."""

from __future__ import annotations

from laneway.api import CoreNode, find_condition
from laneway.core.ledger.facts import NodeFact

LABEL_SCHEDULABLE = "kubevirt.io/schedulable"
"""`false`: KubeVirt's part on the node does not answer."""


def of_node(node: CoreNode) -> NodeFact:
    """A node, and why nothing can start there."""
    return NodeFact(node.metadata.name, node.metadata.labels, _closed(node))


def has_kubelet(node: CoreNode) -> bool:
    """Whether one has ever reported; no pod and no VM starts on a node without.

    Its devices count as free all the same: a machine that runs Laneway alone has no kubelet.
    """
    return find_condition(node.status.conditions, "Ready") is not None


def _closed(node: CoreNode) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    if node.metadata.deletion_timestamp:
        return "the node is being deleted"
    if ready is not None and ready.status != "True":
        return "the node is not ready"
    if node.spec.unschedulable:
        return "the node is cordoned"
    if node.metadata.labels.get(LABEL_SCHEDULABLE) == "false":
        return "KubeVirt does not answer on the node"
    return ""
