"""On which nodes a VM fits with everything that it requests: a row for each node, with reasons.

Devices are counted by the ledger. What the VM has itself counts as free, because a start takes it
again. Of CPU and memory only VMs are counted, which is said: pods of other kinds take some too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.core.ledger.explain import devices_on
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger, State
from laneway.core.ledger.room import Room
from laneway.views.order import natural


class Wanted(NamedTuple):
    """What one VM is to have."""

    resources: Mapping[str, int]
    nodes: frozenset[str] = frozenset()
    """The nodes of the devices that it names; empty: any."""
    selector: Mapping[str, str] = {}
    vm: Consumer | None = None
    """The VM itself, if it exists."""
    cpu: int = 0
    """Thousandths of a processor."""
    memory: int = 0
    """Bytes."""


class Supply(NamedTuple):
    """Of CPU or memory on a node."""

    total: int
    taken: int
    """By VMs, this one left out."""

    @property
    def free(self) -> int:
        return max(self.total - self.taken, 0)


class Usage(NamedTuple):
    """How many devices one VM or pod takes, and how."""

    consumer: Consumer
    state: State
    devices: int


class Cell(NamedTuple):
    """One resource on one node."""

    resource: str
    wanted: int
    total: int
    free: int
    users: tuple[Usage, ...]
    unavailable: tuple[tuple[str, int], ...]
    """Why devices without a user cannot be allocated, with counts."""

    @property
    def enough(self) -> bool:
        return self.free >= self.wanted


class Cause(NamedTuple):
    """Why a VM does not fit on a node."""

    kind: str
    """`devices`, `closed`, `kubelet`, `named`, `selector`, `cpu` or `memory`."""
    subject: str = ""
    wanted: int = 0
    free: int = 0


class Site(NamedTuple):
    """A node."""

    node: str
    cells: tuple[Cell, ...]
    cpu: Supply | None
    memory: Supply | None
    """None: what the node has is not known."""
    causes: tuple[Cause, ...]
    """Empty where the VM fits."""

    @property
    def fits(self) -> bool:
        return not self.causes


class Fitting(NamedTuple):
    """The answer for all nodes."""

    resources: Sequence[tuple[str, int]]
    """What is requested, in the order of each node's cells, with counts."""
    sites: Sequence[Site]
    """The first nodes, those where it fits at first."""
    nodes: int
    """How many there are with some of it."""
    fits: int
    """On how many it fits."""


def fitting(
    ledger: Ledger,
    wanted: Wanted,
    cpu: Mapping[str, Supply],
    memory: Mapping[str, Supply],
    *,
    most: int = 30,
    no_kubelet: Collection[str] = (),
) -> Fitting:
    """The nodes that have some of the devices, all nodes where none is requested."""
    resources = {name: count for name, count in sorted(wanted.resources.items()) if count > 0}
    room = Room(ledger, resources, None)
    if wanted.vm is not None:
        room.release(wanted.vm)
    nodes = {node for name in resources for node in ledger.homes.get(name, ())} | wanted.nodes
    causes = {
        node: (
            *([Cause("kubelet")] if node in no_kubelet else ()),
            *_causes(ledger, wanted, room, node, (cpu.get(node), memory.get(node))),
        )
        for node in (nodes if resources else ledger.nodes)
    }
    order = sorted(causes, key=lambda node: (len(causes[node]), natural(node)))
    sites = [
        Site(
            node,
            tuple(_cell(ledger, room, node, name) for name in resources),
            cpu.get(node),
            memory.get(node),
            causes[node],
        )
        for node in order[:most]
    ]
    fits = sum(not one for one in causes.values())
    return Fitting(list(resources.items()), sites, len(causes), fits)


def _causes(
    ledger: Ledger,
    wanted: Wanted,
    room: Room,
    node: str,
    supplies: tuple[Supply | None, Supply | None],
) -> Iterator[Cause]:
    yield from _place(ledger, wanted, node)
    for resource, count in room.resources.items():
        free = room.free[resource].get(node, 0)
        if free < count:
            yield Cause("devices", resource, count, free)
    needs = (("cpu", wanted.cpu), ("memory", wanted.memory))
    for (kind, count), supply in zip(needs, supplies, strict=True):
        if supply is not None and count > supply.free:
            yield Cause(kind, "", count, supply.free)


def _place(ledger: Ledger, wanted: Wanted, node: str) -> Sequence[Cause]:
    causes = []
    fact = ledger.nodes.get(node)
    if fact is not None and fact.closed:
        causes.append(Cause("closed", fact.closed))
    if wanted.nodes and wanted.nodes != {node}:
        causes.append(Cause("named", ", ".join(sorted(wanted.nodes - {node}))))
    labels = fact.labels if fact is not None else {}
    if lacks := sorted(f"{k}={v}" for k, v in wanted.selector.items() if labels.get(k) != v):
        causes.append(Cause("selector", ", ".join(lacks)))
    return causes


def _cell(ledger: Ledger, room: Room, node: str, resource: str) -> Cell:
    stock = ledger.stocks.get((node, resource))
    count = room.resources[resource]
    if stock is None:
        return Cell(resource, count, 0, 0, (), ())
    found = devices_on(stock, room)
    users = Counter(
        (one.consumer, one.state) for one in stock.taken.values() if one.consumer not in room.gone
    )
    return Cell(
        resource,
        count,
        found.total,
        found.free,
        tuple(Usage(*key, number) for key, number in sorted(users.items())),
        found.unhealthy,
    )


def supplies(totals: Mapping[str, int], taken: Collection[tuple[str, int]]) -> Mapping[str, Supply]:
    """What nodes have of something, less what VMs on them take: pairs of node and amount."""
    sums = dict.fromkeys(totals, 0)
    for node, amount in taken:
        if node in sums:
            sums[node] += amount
    return {node: Supply(total, sums[node]) for node, total in totals.items()}
