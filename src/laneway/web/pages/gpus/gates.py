"""What nodes lack before their GPUs can be shared: an agent, a driver, an IOMMU, SR-IOV.

Harvester's pages ask whether an add-on is switched on. These say of each node what is missing,
as its agent has reported it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from laneway.api import DeviceNode, find_condition
from laneway.controllers.doctor.facts import says_gpus
from laneway.views.gpus import staleness
from laneway.web.caches import NODE, Change, Node
from laneway.web.pages.gpus.rows import Row
from laneway.web.pages.gpus.states import ordered
from laneway.web.visit import Visit

SHOWN = 20


class Lack(NamedTuple):
    """What one node lacks."""

    node: str
    what: str
    """In a few words."""
    words: str = ""
    """The whole message."""


def lacks(visit: Visit, rows: Iterable[Row]) -> tuple[Lack, ...]:
    """What nodes lack, in the order of their names."""
    of_gpus = (Lack(row.node, *one) for row in rows if row.lacks for one in row.lacks)
    found = [*_of_nodes(visit), *of_gpus]
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (ordered(one.node), one.what)))


def of_change(change: Change) -> bool:
    """Whether a change of a node is one of what it lacks; its kubelet writes all the time."""
    if change.kind == "nodes":
        return staleness(change.before) != staleness(change.after)
    if change.kind == "device_nodes":
        return tuple(_agent(change.before)) != tuple(_agent(change.after))
    return False


def _of_nodes(visit: Visit) -> Iterator[Lack]:
    caches, texts = visit.caches, visit.texts
    agents = caches.device_nodes.store
    for node in caches.nodes.store:
        name = node.metadata.name
        if (away := staleness(node)) and _has_gpus(visit, node):
            yield Lack(name, texts("gpus.lack_node"), away)
        elif agents.get(name) is None and _has_gpus(visit, node):
            yield Lack(name, texts("gpus.lack_agent"), texts("gpus.lack_agent_words", node=name))
    for agent in agents:
        for reason, words in _agent(agent):
            yield Lack(agent.metadata.name, reason, words)


def _has_gpus(visit: Visit, node: Node) -> bool:
    """Whether a node has GPUs, as its labels say or an agent has reported."""
    found = visit.caches.gpus.store.by(NODE, node.metadata.name)
    return bool(found) or says_gpus(node.metadata.labels)


def _agent(agent: DeviceNode | None) -> Iterator[tuple[str, str]]:
    """What an agent says that it cannot see or do."""
    if agent is None:
        return
    ready = find_condition(agent.status.conditions, "Ready")
    for condition in agent.status.conditions:
        if condition.status == "False" and condition is not ready:
            yield condition.reason or condition.type, condition.message
    if ready is not None and ready.status == "False":
        yield ready.reason, ready.message
