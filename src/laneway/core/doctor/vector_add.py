"""Whether containers can use a GPU of a node: what the vendor's sample came to."""

from __future__ import annotations

from typing import NamedTuple

from laneway.core.doctor.finding import Finding, ok, problem
from laneway.core.gpu.sample import end_of

_CHECK = "VectorAdd"


class Ran(NamedTuple):
    """What became of a sample."""

    resource: str
    """By which the node gives GPUs to containers; empty: it has none to give, and nothing ran."""
    image: str = ""
    why: str = ""
    """Why it did not end well; empty: it did."""
    log: str = ""
    unread: str = ""
    """Why its log could not be read."""
    labelled: bool = False
    """Whether the node is one for a vendor's device plugin."""


def judge(node: str, ran: Ran) -> Finding:
    """What there is to say of it."""
    if not ran.resource:
        return _unserved(node, ran)
    log = f"no log: {ran.unread}" if ran.unread else f"its log ends: {end_of(ran.log) or 'empty'}"
    what = f"{ran.image} on node {node} with one {ran.resource}"
    if not ran.why:
        return ok(_CHECK, f"{what} ended well; {log}")
    return problem(
        _CHECK,
        f"{what} did not end well: {ran.why}; {log}",
        why="Containers of this node cannot use its GPUs as they should.",
        remedy=(
            "Check that the node can pull the image, or name another one: laneway doctor node "
            f"--vector-add --node {node} --image IMAGE. Check the driver: laneway doctor node"
        ),
    )


def _unserved(node: str, ran: Ran) -> Finding:
    if ran.labelled:
        return problem(
            _CHECK,
            f"no device plugin of a vendor gives GPUs of node {node} to containers",
            why="The node has GPUs that serve containers.",
            remedy=(
                "Deploy the plugin by devicePlugins.VENDOR.enabled=true of Laneway's chart, or see "
                "why it does not run: kubectl get pods -A -o wide --field-selector "
                f"spec.nodeName={node}"
            ),
        )
    return problem(
        _CHECK,
        f"no GPU of node {node} serves containers",
        why="The sample runs in a container.",
        remedy=(
            f"Have them serve containers: kubectl label node {node} "
            "laneway.io/gpu-workload=containers. If they are to already, see why not: kubectl get "
            f"nodes.devices.harvesterhci.io {node} -o yaml"
        ),
    )
