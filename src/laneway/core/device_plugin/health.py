"""Which of the offered devices cannot be allocated now, and why.

An IOMMU group can be used by one process only. As soon as one of its functions is with a pod, the
others are for no other pod. They may still be for that pod: it gets a group's functions one
resource after the other, and the kubelet requests healthy ones only. So a group member under
another name stays healthy until it is known whose the first is, and then as long as that pod is
still to get what it requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from laneway.core.device_plugin.offer import Form, Offer, Owner
from laneway.core.inventory import Inventory
from laneway.core.passthrough.iommu_group import goes_along
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress, PciFunction

Device = tuple[str, str]
"""Resource and id, as the kubelet names a device."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known in addition to the inventory."""

    quarantined: Mapping[PciAddress, str] = {}
    """Functions whose reset failed, and how."""
    faults: Mapping[PciAddress, str] = {}
    """Cards that reported a fault after which nothing can rely on them, by their function 0."""
    owners: Mapping[Device, Owner] | None = None
    """The holder of each device, however it got it; None while not known."""
    fresh: Collection[Device] = ()
    """Allocated a moment ago, the pod is not known yet."""
    wanting: Collection[tuple[str, str, str]] = ()
    """Pods that have devices and are still to get others: namespace, name, resource."""
    opened: Mapping[str, Sequence[str]] = {}
    """Processes, as `process 4711 (vfio-test)`, that have a node in /dev open."""


def judged(offers: Sequence[Offer], inventory: Inventory, facts: Facts) -> tuple[Offer, ...]:
    """The same offers, each with why it cannot be allocated now."""
    if not offers:
        return ()
    known = inventory.by_address()
    groups: dict[int, list[PciFunction]] = defaultdict(list)
    for function in inventory.functions:
        if function.iommu_group is not None:
            groups[function.iommu_group].append(function)
    failed = {error.device: error.message for error in inventory.errors}
    users = _Users(offers, groups, facts)

    def why(offer: Offer) -> str:
        function = known.get(offer.address) if offer.address else None
        return (
            failed.get(offer.id, "")
            or _broken(offer, facts)
            or (_not_viable(offer, groups) if function else "")
            or users.in_the_way(offer)
        )

    return tuple(msgspec.structs.replace(offer, unhealthy=why(offer)) for offer in offers)


def node_of(offer: Offer) -> str:
    """The node in /dev that users of a device have open; empty where it has none."""
    if offer.usb is not None:
        return f"/dev/bus/usb/{offer.usb[0]:03d}/{offer.usb[1]:03d}"
    return "" if offer.group is None else f"/dev/vfio/{offer.group}"


def device_of(offer: Offer) -> Device:
    """How the kubelet names it."""
    return offer.resource, offer.id


def with_group_members(
    offers: Iterable[Offer], owners: Mapping[Device, Owner]
) -> dict[Device, Owner]:
    """Who has each of these, also by what came along with another function of its group."""
    offers = tuple(offers)
    of_group: dict[tuple[str, int | None], Owner] = {}
    for one in offers:
        if one.form is Form.PCI and one.group is not None and (one.resource, one.id) in owners:
            of_group.setdefault((one.resource, one.group), owners[one.resource, one.id])
    of_id: dict[str, Owner] = {}
    for (_, one_id), owner in owners.items():
        of_id.setdefault(one_id, owner)
    found = {}
    for one in offers:
        device = one.resource, one.id
        has = owners.get(device) or of_id.get(one.id) or of_group.get((one.resource, one.group))
        if has is not None:
            found[device] = has
    return found


def _broken(offer: Offer, facts: Facts) -> str:
    for address in (offer.address, offer.card):
        if address is not None and (error := facts.quarantined.get(address)):
            return f"{address} could not be reset after its last user: {error}"
    return facts.faults.get(offer.card._replace(function=0), "") if offer.card else ""


def _not_viable(offer: Offer, groups: Mapping[int, Sequence[PciFunction]]) -> str:
    """Why VFIO would not let anybody open the group of a function."""
    members = groups.get(offer.group, ()) if offer.group is not None else ()
    mine = next((one for one in members if one.address == offer.address), None)
    if mine is None or mine.driver != VFIO_DRIVER:
        return ""  # Its driver is a VFIO driver itself, as those of its group members.
    for member in members:
        if member.driver not in ("", VFIO_DRIVER) and goes_along(member):
            return f"{member.address} of its IOMMU group {offer.group} is on driver {member.driver}"
    return ""


class _Users:
    """Who uses the groups of a node."""

    def __init__(
        self,
        offers: Iterable[Offer],
        groups: Mapping[int, Sequence[PciFunction]],
        facts: Facts,
    ) -> None:
        self._facts = facts
        owners = facts.owners or {}
        self._owners = owners
        group_of = {
            str(function.address): group for group, there in groups.items() for function in there
        }
        group_of |= {one.id: one.group for one in offers if one.group is not None}
        self._by_id: dict[str, tuple[str, Owner]] = {}
        self._pods: dict[int, dict[tuple[str, str], str]] = defaultdict(dict)
        """By group the pods that have something of it, with what."""
        for (resource, one), owner in sorted(owners.items()):
            self._by_id.setdefault(one, (resource, owner))
            if one in group_of:
                self._pods[group_of[one]].setdefault((owner.namespace, owner.pod), one)
        self._fresh: dict[int, list[Device]] = defaultdict(list)
        for resource, one in sorted(facts.fresh):
            if one in group_of:
                self._fresh[group_of[one]].append((resource, one))
        self._wanting = frozenset(facts.wanting)

    def in_the_way(self, offer: Offer) -> str:
        """The holders of what only one can have."""
        device = offer.resource, offer.id
        if device in self._owners or device in self._facts.fresh:
            return ""
        if offer.id in self._by_id:
            resource, owner = self._by_id[offer.id]
            return f"it is allocated to pod {owner.namespace}/{owner.pod} as {resource}"
        if offer.group is not None:
            for pod, one in self._pods.get(offer.group, {}).items():
                if (*pod, offer.resource) not in self._wanting:
                    return _member(offer.group, one, f"with pod {pod[0]}/{pod[1]}")
            for resource, one in self._fresh.get(offer.group, ()):
                if resource == offer.resource:
                    return _member(offer.group, one, "allocated to a pod that is starting")
        return self._open(offer)

    def _open(self, offer: Offer) -> str:
        """Which process has it open that is no pod's, as far as that is known."""
        if self._facts.owners is None or (
            offer.group is not None and (offer.group in self._pods or offer.group in self._fresh)
        ):
            return ""
        node = node_of(offer)
        processes = self._facts.opened.get(node, ())
        return f"{', '.join(processes)} has {node} open and is no pod's" if processes else ""


def _member(group: int, one: str, where: str) -> str:
    return f"{one} of its IOMMU group {group} is {where}"
