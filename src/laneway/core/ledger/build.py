"""Making the ledger from facts.

The same facts give the same ledger in whatever order they come. Devices go first to those who have
them: an owner that the kubelet reported, then VMs and pods on a node. Those that are still to be
placed follow, the ones that are to run before the ones that are stopped, and older ones before
younger; so of two that race for the last device the younger one is short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, Facts, NodeFact
from laneway.core.ledger.ledger import Ledger, Share, Shortage
from laneway.core.ledger.placing import Placing, Shelf, by_name, take, turn_of

LABEL_HOSTNAME = "kubernetes.io/hostname"


def build(facts: Facts) -> Ledger:
    """The ledger of these facts."""
    groups = _grouped(facts.devices)
    nodes = all_nodes(facts.nodes, groups)
    labelled = by_label(nodes.values())
    shelves: dict[tuple[str, str], Shelf] = {}
    shares: dict[Consumer, list[Share]] = defaultdict(list)
    homes: dict[str, str] = {}
    last = {name for demand in facts.demands for name in demand.last}
    for (node, resource), group in sorted(groups.items()):
        shelf = shelves[node, resource] = Shelf(group.values(), nodes[node].closed)
        for owner, share in shelf.reported():
            shares[owner].append(share)
        for name in last.intersection(group):
            homes.setdefault(name, node)
    work = Placing(
        nodes,
        labelled,
        free={key: len(shelf.free) for key, shelf in shelves.items()},
        shares=shares,
        homes=homes,
        resources=sorted({resource for _, resource in groups}),
    )
    demands: dict[Consumer, Demand] = {}
    shortages: list[Shortage] = []
    for demand in sorted(facts.demands, key=turn_of):
        if demand.consumer in demands:
            continue
        demands[demand.consumer] = demand
        if (choice := work.choose(demand)) is None:
            continue
        more, short = take(demand, choice, shelves.get)
        work.took(more)
        work.shares[demand.consumer] += more
        if short is not None:
            shortages.append(short)
    return _ledger(work, shelves, demands, shortages)


def _ledger(
    work: Placing,
    shelves: Mapping[tuple[str, str], Shelf],
    demands: Mapping[Consumer, Demand],
    shortages: Iterable[Shortage],
) -> Ledger:
    free: dict[str, dict[str, int]] = {resource: {} for resource in work.orders}
    homes: dict[str, list[str]] = {resource: [] for resource in free}
    for (node, resource), shelf in shelves.items():
        homes[resource].append(node)
        if shelf.free:
            free[resource][node] = len(shelf.free)
    return Ledger(
        stocks={key: shelf.stock() for key, shelf in shelves.items()},
        shortages=tuple(shortages),
        demands=demands,
        shares={consumer: tuple(shares) for consumer, shares in work.shares.items() if shares},
        nodes=work.nodes,
        free=free,
        homes={resource: tuple(nodes) for resource, nodes in homes.items()},
        labelled=work.labelled,
    )


_Groups = dict[tuple[str, str], dict[str, DeviceFact]]


def _grouped(devices: Iterable[DeviceFact]) -> _Groups:
    groups: _Groups = defaultdict(dict)
    for device in devices:
        add(groups[device.node, device.resource], device)
    return groups


def add(group: dict[str, DeviceFact], device: DeviceFact) -> None:
    """Put a fact to those of its stock; which of two about one device comes first says nothing."""
    known = group.get(device.name)
    group[device.name] = device if known is None else _merged(known, device)


def _merged(one: DeviceFact, other: DeviceFact) -> DeviceFact:
    owners = [fact.owner for fact in (one, other) if fact.owner is not None]
    return msgspec.structs.replace(
        one,
        unhealthy=max(one.unhealthy, other.unhealthy),
        owner=min(owners) if owners else None,
    )


def all_nodes(
    reported: Iterable[NodeFact] | None, groups: Iterable[tuple[str, str]]
) -> dict[str, NodeFact]:
    """Every node that there is, and every one that a device says it is on."""
    nodes = {node.name: node for node in sorted(reported or (), key=by_name)}
    closed = "" if reported is None else "the cluster has no such node"
    for name in sorted({node for node, _ in groups} - nodes.keys()):
        nodes[name] = NodeFact(name, {LABEL_HOSTNAME: name}, closed)
    return nodes


def by_label(nodes: Iterable[NodeFact]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        for label in node.labels.items():
            found[label].add(node.name)
    return {label: frozenset(names) for label, names in found.items()}
