"""For how many VMs that are alike there is room, and on which nodes."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger


class Room:
    """What is free of some resources, and for how many VMs that is enough.

    It starts as the ledger has it, and grows by what VMs release. Most questions are
    answered before anything is released, so the ledger's own numbers are read until then.
    """

    def __init__(
        self, ledger: Ledger, resources: Mapping[str, int], allowed: frozenset[str] | None
    ) -> None:
        """`resources` is what one VM requests; `allowed` None allows every node."""
        self.resources = resources
        self.allowed = allowed
        self.gone: set[Consumer] = set()
        """Those that released what they had."""
        self.free = {
            resource: _within(ledger.free.get(resource, {}), allowed) for resource in resources
        }
        self.rooms = self._measure()
        """Machines by node, where there is room for one."""
        self.total = sum(self.rooms.values())
        self._ledger = ledger
        self._own: dict[str, dict[str, int]] = {}
        """Numbers of `free` that are not the ledger's."""

    def release(self, consumer: Consumer) -> None:
        """Take a holder out. What others could not get is not free afterwards."""
        self.gone.add(consumer)
        for share in self._ledger.shares.get(consumer, ()):
            inside = self.allowed is None or share.node in self.allowed
            if share.usable and inside and share.resource in self.resources:
                self._add(share.resource, share.node)

    def _add(self, resource: str, node: str) -> None:
        if resource not in self._own:
            self._own[resource] = self.free[resource] = dict(self.free[resource])
        free = self._own[resource]
        free[node] = free.get(node, 0) + 1
        before = self.rooms.get(node, 0)
        now = min(self.free[name].get(node, 0) // count for name, count in self.resources.items())
        if now > before:
            self.rooms[node] = now
            self.total += now - before

    def alone(self, resource: str) -> int:
        """For how many VMs there would be room if they requested this resource only."""
        count = self.resources[resource]
        return sum([free // count for free in self.free[resource].values()])

    def _measure(self) -> dict[str, int]:
        rooms: dict[str, int] | None = None
        for resource in sorted(self.resources, key=lambda resource: len(self.free[resource])):
            free, count = self.free[resource], self.resources[resource]
            if rooms is None:
                rooms = {node: there // count for node, there in free.items() if there >= count}
            else:
                rooms = {
                    node: min(room, there // count)
                    for node, room in rooms.items()
                    if (there := free.get(node, 0)) >= count
                }
        return rooms or {}


def _within(free: Mapping[str, int], allowed: frozenset[str] | None) -> Mapping[str, int]:
    if allowed is None:
        return free
    if len(allowed) < len(free):
        return {node: free[node] for node in sorted(allowed) if node in free}
    return {node: count for node, count in free.items() if node in allowed}
