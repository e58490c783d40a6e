"""Which attached device serves which item of the spec, one to one.

Every item first looks among what has just the label that it names, or none; only items without a
label that found nothing there take what is labelled. So two equal cards with different labels stay
apart, and no device is missing and surplus at once. Of a group all devices are there, or it is
not: a part of it is of no use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import Attached, DynamicBacking, VgpuBacking
from laneway.core.vsphere.placement.pairing import assign
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

NO_PARTS: Mapping[str, int] = {}
"""It is not known of how many devices groups are."""


class Match(msgspec.Struct, frozen=True):
    """How what is attached compares with what is requested."""

    allocations: tuple[Attached | None, ...]
    """What serves each item, in the order of the spec; of a group, its first device."""
    missing: tuple[DeviceRequest, ...]
    """Items that nothing serves, in the order of the spec."""
    surplus: tuple[Attached, ...]
    """Devices that no item requests."""


def parts_of(requested: Requested, hosts: Iterable[Host]) -> Mapping[str, int]:
    """Of how many devices the groups are that a machine requests, by name, as hosts offer them."""
    named = {one.name for one in requested.devices if isinstance(one, GroupRequest)}
    if not named:
        return {}
    vgpu_size = [group for host in hosts for group in host.device_groups if group.name in named]
    return {
        name: min(len(group.parts) for group in vgpu_size if group.name == name)
        for name in {group.name for group in vgpu_size}
    }


def match(
    requested: Requested, attached: Sequence[Attached], parts: Mapping[str, int] = NO_PARTS
) -> Match:
    """Compare what a VM has with what its machine requests; `parts` as above."""
    units = _units(attached)
    firsts = [unit[0] for unit in units]
    wide: dict[int, Sequence[int]] = {}
    narrow: dict[int, Sequence[int]] = {}
    for index, request in enumerate(requested.devices):
        size = parts.get(request.name, 0) if isinstance(request, GroupRequest) else 0
        wide[index] = [
            at for at, one in enumerate(firsts) if serves(one, request) and len(units[at]) >= size
        ]
        narrow[index] = [at for at in wide[index] if not _kept_for_others(firsts[at], request)]
    found = assign(wide, assign(narrow))
    used = {device.key for at in found.values() for device in units[at]}
    return Match(
        allocations=_by_item(found, firsts, len(requested.devices)),
        missing=tuple(one for at, one in enumerate(requested.devices) if at not in found),
        surplus=tuple(device for device in attached if device.key not in used),
    )


def _by_item(
    found: Mapping[int, int], firsts: Sequence[Attached], count: int
) -> tuple[Attached | None, ...]:
    return tuple(firsts[found[at]] if at in found else None for at in range(count))


def _units(attached: Sequence[Attached]) -> list[tuple[Attached, ...]]:
    """Devices that come and go together: those of one group, and every other by itself."""
    units: dict[tuple[str, int], list[Attached]] = {}
    for device in attached:
        key = ("group", device.group) if device.group else ("device", device.key)
        units.setdefault(key, []).append(device)
    return [tuple(unit) for unit in units.values()]


def serves(attached: Attached, request: DeviceRequest) -> bool:
    """Whether a device is what an item requests."""
    if isinstance(request, GroupRequest):
        # A vCenter that does not report the name of a group is believed to have the requested one.
        return attached.group != 0 and attached.group_name in ("", request.name)
    backing = attached.backing
    if attached.group:
        return False
    if isinstance(request, VgpuRequest):
        return isinstance(backing, VgpuBacking) and backing.profile == request.profile
    return (
        isinstance(backing, DynamicBacking)
        and request.label in ("", backing.label)
        and bool(backing.allowed)
        and all(allows(request.allowed, ids) for ids in backing.allowed)
    )


def _kept_for_others(attached: Attached, request: DeviceRequest) -> bool:
    """Whether a device has what an item does not request, and another may."""
    if isinstance(request, GroupRequest):
        return attached.group_name == ""
    return (
        isinstance(request, PassthroughRequest)
        and isinstance(attached.backing, DynamicBacking)
        and request.label != attached.backing.label
    )


def allows(allowed: Sequence[PciIds], ids: PciIds) -> bool:
    """Whether a device with these ids is one of those that are allowed."""
    return any(_covers(one, ids) for one in allowed)


def _covers(pattern: PciIds, ids: PciIds) -> bool:
    return all(want is None or want == have for want, have in zip(pattern, ids, strict=True))
