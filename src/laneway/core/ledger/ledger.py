"""The ledger itself: every device in exactly one state, and what follows from that.

Devices of one resource on one node form a stock. Of each stock, what is held, reserved, wanted,
unhealthy and free adds up to all its devices, whatever the facts were: a device has one state, and
the numbers are counts of devices. A request beyond the devices that there are is no
negative number anywhere but an entry of its own, a shortage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, NodeFact, Phase


class State(StrEnum):
    """What is with a device. One that is held is held, however unhealthy it is."""

    HELD = "held"
    """A running VM or pod has it."""
    RESERVED = "reserved"
    """Kept for a VM that is stopped."""
    WANTED = "wanted"
    """About to be allocated to a VM or pod that is to run."""
    FREE = "free"
    UNHEALTHY = "unhealthy"
    """It has no holder, and cannot be allocated."""


class Taking(NamedTuple):
    """By whom a device is taken, and how."""

    state: State
    consumer: Consumer


class Counts(msgspec.Struct, frozen=True, gc=False):
    """The devices of a stock by state."""

    total: int = 0
    held: int = 0
    reserved: int = 0
    wanted: int = 0
    free: int = 0
    unhealthy: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.held + other.held,
            self.reserved + other.reserved,
            self.wanted + other.wanted,
            self.free + other.free,
            self.unhealthy + other.unhealthy,
        )


class Entry(NamedTuple):
    """One device and its state."""

    device: DeviceFact
    state: State
    consumer: Consumer | None
    unhealthy: str
    """Why it could not be allocated, were it not taken; empty: it is healthy."""


class Stock(msgspec.Struct, frozen=True):
    """All devices of one resource on one node."""

    node: str
    resource: str
    devices: tuple[DeviceFact, ...]
    """By name."""
    taken: Mapping[str, Taking]
    """By name of the device. Who has one is known of each that is held and has an owner; otherwise
    any of the same resource would do as well."""
    counts: Counts
    closed: str = ""
    """Why nothing new can start on the node; empty: it can."""

    def entries(self) -> Iterator[Entry]:
        """Every device."""
        for device in self.devices:
            unhealthy = device.unhealthy or self.closed
            taking = self.taken.get(device.name)
            if taking is not None:
                yield Entry(device, taking.state, taking.consumer, unhealthy)
            else:
                state = State.UNHEALTHY if unhealthy else State.FREE
                yield Entry(device, state, None, unhealthy)


class Share(NamedTuple):
    """A device that is allocated or reserved."""

    node: str
    resource: str
    name: str
    usable: bool
    """Whether others could get it if it were released."""


def serves(share: Share, demand: Demand, nodes: Mapping[str, NodeFact]) -> bool:
    """Whether its holder can use a device: on its node, or where it could be placed.

    While a node does not answer, what its agent reported stays.
    """
    if demand.node:
        return share.node == demand.node
    return not nodes[share.node].closed


class Shortage(msgspec.Struct, frozen=True):
    """Requested devices that no node has together."""

    consumer: Consumer
    phase: Phase
    missing: Mapping[str, int]


class Ledger(msgspec.Struct, frozen=True):
    """All stocks at one moment."""

    stocks: Mapping[tuple[str, str], Stock] = {}
    """By node and resource, in that order."""
    shortages: tuple[Shortage, ...] = ()
    demands: Mapping[Consumer, Demand] = {}
    shares: Mapping[Consumer, tuple[Share, ...]] = {}
    """What each has, or what is kept for each."""
    nodes: Mapping[str, NodeFact] = {}
    free: Mapping[str, Mapping[str, int]] = {}
    """Free devices by resource and node, where there are some."""
    homes: Mapping[str, tuple[str, ...]] = {}
    """The nodes that have devices of a resource."""
    labelled: Mapping[tuple[str, str], frozenset[str]] = {}
    """The nodes that have a label."""

    def with_labels(self, selector: Mapping[str, str]) -> frozenset[str]:
        """The nodes that have all of these labels; at least one is given."""
        sets = (self.labelled.get(label, frozenset()) for label in selector.items())
        return frozenset.intersection(*sets)
