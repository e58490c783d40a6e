"""Machine pools as they are judged: what their machines request, and which there are already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from laneway.core.ledger.facts import Consumer

CPU, MEMORY = "cpu", "memory"


class Machine(NamedTuple):
    """A machine of a pool that exists."""

    vm: Consumer
    stays: bool
    """Whether it is as the pool wants its machines; another one is replaced."""
    placed: bool = True
    """Whether it has a node; one that waits for one is judged like one that is still to be made."""
    created: str = ""
    """Time as Kubernetes writes it."""
    needs: Mapping[str, int] = {}
    """The CPU and memory that its pod requests."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """So many machines that are alike."""

    name: str
    quantity: int
    devices: Mapping[str, int] = {}
    """How many of each resource a machine has."""
    cpu: int = 0
    """Thousandths of a processor that the pod of a machine requests."""
    memory: int = 0
    """Bytes of the same."""
    surge: int = 1
    """How many machines more there may be during a rolling update."""
    unavailable: int = 0
    """How many less."""
    nodes: frozenset[str] | None = None
    """Where its machines may be; None: anywhere."""
    machines: tuple[Machine, ...] = ()

    @property
    def leaving(self) -> tuple[Machine, ...]:
        """Those that are replaced or removed, in that order: what does not run, then by age."""
        by_age = sorted(self.machines, key=lambda one: (one.placed, one.created, one.vm))
        there = [one for one in by_age if one.stays]
        extra = there[: max(len(there) - self.quantity, 0)]
        return tuple(one for one in by_age if not one.stays or one in extra)

    @property
    def coming(self) -> int:
        """How many are still to get a node."""
        return max(self.quantity - sum(one.stays and one.placed for one in self.machines), 0)

    @property
    def is_replacing(self) -> bool:
        """Whether a rolling update is due: what has no node yet goes without any."""
        return any(one.placed and not one.stays for one in self.machines)

    @property
    def needs(self) -> dict[str, int]:
        """What one machine takes of its node."""
        return {**self.devices, CPU: self.cpu, MEMORY: self.memory}
