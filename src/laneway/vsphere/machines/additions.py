"""Devices to attach, as vCenter's specifications.

Keys are negative and differ within a request. The devices of a vendor device group carry the key of
their group and their place in it, and are always attached together.

An item without a label is attached without one, also where the device that it has reserved has one.
To name that label would make the reservation exact, but the VM would keep it when its reservation
moves to a host without such a device, and could not start there. So vCenter may take another
device than the reserved one. The machine for which that is reserved then fails to start, and is
tried elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from laneway.core.vsphere.inventory.hosts import DeviceGroup, GroupPart
from laneway.core.vsphere.inventory.vms import Attached, Backing, DynamicBacking, Fault, VgpuBacking
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    VgpuRequest,
)
from laneway.vsphere.port import Addition, FaultError

_FIRST_KEY = -200
"""As CAPV: vCenter's own go upwards from 13000."""


def additions(
    request: Sequence[DeviceRequest], groups: Mapping[str, DeviceGroup], there: Iterable[Attached]
) -> tuple[Addition, ...]:
    """What to attach for these items. Raises FaultError for a group that cannot be."""
    keys = count(_FIRST_KEY, -1)
    group_keys = count(max((one.group for one in there), default=0) + 1)
    found: list[Addition] = []
    for one in request:
        match one:
            case VgpuRequest(profile):
                found.append(Addition(next(keys), VgpuBacking(profile)))
            case PassthroughRequest(allowed, label):
                found.append(Addition(next(keys), DynamicBacking(allowed, label)))
            case GroupRequest(name):
                found += _of_group(name, groups.get(name), keys, next(group_keys))
    return tuple(found)


def _of_group(
    name: str, group: DeviceGroup | None, keys: Iterator[int], group_key: int
) -> Iterable[Addition]:
    if group is None:
        raise FaultError(
            Fault(
                "DeviceGroupMissing",
                f"the reserved host no longer offers device group {name!r} now",
            )
        )
    return [
        Addition(next(keys), _backing(name, part), name, group_key, at)
        for at, part in enumerate(group.parts)
    ]


def _backing(group: str, part: GroupPart) -> Backing:
    if part.profile:
        return VgpuBacking(part.profile)
    if part.ids is not None:
        return DynamicBacking((part.ids,), part.label)
    raise FaultError(
        Fault(
            "DeviceGroupUnsupported",
            f"device group {group!r} has a part of kind {part.kind} ({part.name}), which cannot "
            "be attached; choose a group of GPUs and network cards",
        )
    )
