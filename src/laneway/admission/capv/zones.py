"""What the machines of a control plane can have, wherever Cluster API puts them.

A control plane names no failure domain: its machines are spread evenly over those of its cluster
that are for control planes. So one that has devices for all of them does not help the others.
While the failure domains are not known, what there is anywhere counts: what is said is then too
little, and never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from laneway.admission.capv.supply import Scope, Supply, cluster_of, of_machines, of_template
from laneway.admission.world import World
from laneway.core.refusals import Refusal
from laneway.core.refusals.vsphere import is_terminal
from laneway.core.vsphere.spec.requests import Requested


class Zone(NamedTuple):
    """A failure domain."""

    name: str
    supply: Supply
    most: int | None = None
    """So many machines may still come here; None: any number."""

    def room(self, requested: Requested) -> int:
        """For how many machines there is room here, of those that may come."""
        if self.most == 0:
            return 0
        room = self.supply.room(requested)
        return room if self.most is None else min(room, self.most)


class Zones(NamedTuple):
    """Failure domains over which machines are spread; answers as a `Supply` does."""

    zones: tuple[Zone, ...]
    even: bool = True
    """Whether each has its share; not known where these are vCenters with domains."""

    @property
    def known(self) -> bool:
        """Whether something is known of all of them."""
        return all(one.supply.known for one in self.zones)

    @property
    def unknown(self) -> str:
        """What to say where nothing is known of one."""
        return next((one.supply.unknown for one in self.zones if not one.supply.known), "")

    @property
    def with_reservation(self) -> frozenset[str]:
        """The machines that have reserved something."""
        return frozenset[str]().union(*(one.supply.with_reservation for one in self.zones))

    def refusal(self, requested: Requested) -> Refusal | None:
        """Why there is no place for one machine in any of them."""
        last: Refusal | None = None
        for one in self.zones:
            found = one.supply.refusal(requested)
            if found is None:
                return None
            last = found if last is None or not is_terminal(found) else last
        return last

    def why(self, requested: Requested) -> str:
        """Of the first that cannot take its share, why."""
        for one in self.zones:
            if one.most is not None and (room := one.room(requested)) < one.most:
                words = f"Failure domain {one.name} has room for {room} of its {one.most}."
                return f"{words} {one.supply.why(requested)}".rstrip()
        return ""

    def room(self, requested: Requested) -> int:
        """For how many machines there is room in all of them."""
        return sum(one.room(requested) for one in self.zones)

    def without(self, machines: Collection[str]) -> Zones:
        """As it were if these machines, by the names that reservations have for them, were gone."""
        return self._replace(
            zones=tuple(one._replace(supply=one.supply.without(machines)) for one in self.zones)
        )

    def evenly(self, replicas: int, there: Mapping[str, int]) -> Zones:
        """For so many machines at last, of which some are there, by failure domain."""
        if not self.even:
            return self
        each = -(-replicas // len(self.zones))
        shares = (max(0, each - there.get(one.name, 0)) for one in self.zones)
        return self._replace(
            zones=tuple(
                one._replace(most=share) for one, share in zip(self.zones, shares, strict=True)
            )
        )


Anywhere: TypeAlias = Supply | Zones


def of_control_plane(world: World, scope: Scope, datacenter: str) -> Anywhere | None:
    """What a control plane's machines can have.

    None where Laneway follows no vCenter at all, or does not know one of the failure domains.
    """
    cluster = cluster_of(world, scope)
    names = [
        one.name
        for one in (() if cluster is None else cluster.status.failure_domains)
        if one.control_plane
    ]
    if names:
        each = ((name, of_machines(world, scope, name, "")) for name in sorted(names))
        zones = tuple(Zone(name, supply) for name, supply in each if supply is not None)
        return Zones(zones) if len(zones) == len(names) else None
    has_none = cluster is not None and cluster.spec.failure_domain_selector is None
    if has_none or not len(world.vsphere_zones):
        return of_machines(world, scope, "", datacenter)
    found = of_template(world, scope)
    if found is None or len(found.sites) < 2:
        return found
    apart = (Zone("", found._replace(sites=(site,))) for site in found.sites)
    return Zones(tuple(apart), even=False)
