"""Why no node of a fleet has room for a VM: what each resource lacks, and of how many GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from laneway.core.fleet.model import Fleet, Node, Vm
from laneway.core.fleet.placing import lack, room_for
from laneway.core.fleet.room import Room, excluded
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import few


def why_not(room: Room, vm: Vm) -> str:
    """In words, for a VM that no node has room for. Raises TooLongError."""
    nodes = []
    for node in room.fleet.nodes:
        room.effort.look()
        if not excluded(node, vm):
            nodes.append(node)
    if not nodes:
        return _no_node(room.fleet, vm)
    lacking = []
    for resource, count in sorted(vm.requests.items()):
        most = max(_on_node(room, node, resource) for node in nodes)
        if most < count:
            lacking.append(f"{count} x {resource}: {_lack(room, nodes, resource, most)}")
    if lacking:
        return "; ".join(lacking)
    return "no node has room for all of its devices at once. Request fewer per VM"


def _no_node(fleet: Fleet, vm: Vm) -> str:
    asked = ", ".join(f"{key}={value}" for key, value in sorted(vm.selector.items()))
    closed = [f"{node.name} ({node.closed})" for node in fleet.nodes if node.closed]
    if asked and len(closed) < len(fleet.nodes):
        return f"no open node has the labels {asked}"
    return f"no node is open: {few(closed)}"


def _on_node(room: Room, node: Node, resource: str) -> int:
    vgpus = sum(room_for(room.shapes[one], resource) for one in room.by_node[node.name])
    return vgpus + room.free[node.name][resource]


def _lack(room: Room, nodes: Sequence[Node], resource: str, most: int) -> str:
    if most:
        return f"the node with the most room has room for {most}"
    if not is_vgpu_resource(resource):
        return "no node has a free one"
    shapes = Counter(room.shapes[one] for node in nodes for one in room.by_node[node.name])
    reasons: Counter[str] = Counter()
    for shape, count in shapes.items():
        reasons[lack(shape, resource)] += count
    del reasons[""]
    if not reasons:
        return "no GPU of an open node has this profile"
    return "; ".join(
        f"{count} GPU{'s' if count != 1 else ''} {words}"
        for words, count in sorted(reasons.items())
    )
