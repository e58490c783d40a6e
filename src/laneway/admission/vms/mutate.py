"""What is made right of a VM that requests devices, as a JSON patch.

Works on the object as it came, of which most is not ours: what the user wrote stays, entry by entry
and in his order. All entries of a resource go to the list where they belong, at its end, then the
claimed members of IOMMU groups; names that a machine driver gives to all devices alike are told
apart; mediated devices say who has the display; the pod gets the memory that large devices take;
and an annotation says which devices were looked at. A second pass finds nothing to do.

Devices that are as they were before are left alone, whatever they lack: who changes a label does
not find another VM. Only what keeps a VM from starting is put right at the next write: one resource
in both lists, or one such name in two entries. An object that cannot be read is KubeVirt's to
refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from laneway.admission.json_patch import PatchOperation, put, remove
from laneway.admission.recording import Asking, is_seen
from laneway.admission.vms import overhead
from laneway.admission.vms.displays import with_displays
from laneway.admission.vms.gpus import Lists, arranged, in_both
from laneway.admission.vms.group_members import GroupMembers, group_members_of
from laneway.admission.vms.placeholders import told_apart
from laneway.admission.world import World
from laneway.api import DecodeError, PCIDeviceClaim, decode
from laneway.core.raw import Json, JsonObject, at, items
from laneway.kube.kubevirt import (
    ANNOTATION_ADMITTED,
    DeviceRequest,
    Devices,
    Features,
    VirtualMachine,
    VirtualMachineSpec,
    mark_of,
)
from laneway.kube.resource import served

_SPEC = ("spec", "template", "spec", "domain")
_DEVICES = (*_SPEC, "devices")
_HOST_DEVICES = (*_DEVICES, "hostDevices")
_GPUS = (*_DEVICES, "gpus")
_RESERVED = (*_SPEC, "memory", "reservedOverhead")
_ADDED = (*_RESERVED, "addedOverhead")
_MARK = ("metadata", "annotations", ANNOTATION_ADMITTED)
_MOST = 8
"""The most group members that a warning names."""


class Mutation(NamedTuple):
    """What to change, and what to tell the user."""

    operations: tuple[PatchOperation, ...] = ()
    warnings: tuple[str, ...] = ()


NOTHING = Mutation()


def mutate(
    raw: Json,
    old: Json,
    world: World,
    *,
    features: Features = Features(),  # noqa: B008 - frozen
) -> Mutation:
    """What to change of a VM, `old` being what it was; None where it is new."""
    vm = _read(raw)
    if vm is None or vm.metadata.deletion_timestamp:
        return NOTHING
    before = _read(old) if old is not None else None
    devices = vm.spec.template.spec.domain.devices
    had = before.spec.template.spec.domain.devices if before is not None else None
    asked, stored = _lists(raw), _lists(old if before is not None else None)
    filled_in = _is_filled_in(vm.spec)
    if had is not None and _are_same(had, devices) and not _cannot_start(asked):
        return Mutation(tuple(_keep_mark(raw, old, devices)))
    found = _in_place(asked, stored, world, filled_in=filled_in)
    if had is not None and _are_same(had, _as_devices(found)):
        return Mutation((*_put_lists(raw, found), *_keep_mark(raw, old, had)))
    found, members = _with_group_members(found, stored, world, filled_in=filled_in)
    final = _as_devices(found)
    old_asking = None if before is None or had is None else Asking(had, before.metadata)
    # What we wrote of the devices that it had, if nothing was added since.
    ours = at(old, _ADDED) if had is not None and at(old, _ADDED) == _quantity(had, world) else None
    operations = [
        *_put_lists(raw, found),
        *(_reserve(raw, _quantity(final, world), ours) if features.reserved_overhead else ()),
        *_put_mark(raw, mark_of(final) if is_seen(final, old_asking) else ""),
    ]
    reported = (*_staying(members, had), *_warnings(members, final, world, features))
    return Mutation(tuple(operations), reported)


def as_stored(spec: VirtualMachineSpec, world: World) -> Devices:
    """The devices of a VM that is yet to be made, as mutation will leave them."""
    devices = spec.template.spec.domain.devices
    asked = Lists(
        *([_as_raw(one) for one in part] for part in (devices.host_devices, devices.gpus))
    )
    filled_in = _is_filled_in(spec)
    found = _in_place(asked, Lists(), world, filled_in=filled_in)
    return _as_devices(_with_group_members(found, Lists(), world, filled_in=filled_in)[0])


def _as_raw(request: DeviceRequest) -> JsonObject:
    raw: JsonObject = msgspec.to_builtins(request)
    return {key: value for key, value in raw.items() if value}


def _is_filled_in(spec: VirtualMachineSpec) -> bool:
    return bool(spec.instancetype.name or spec.preference.name)


def _read(raw: Json) -> VirtualMachine | None:
    try:
        return decode(VirtualMachine, raw) if isinstance(raw, Mapping) else None
    except DecodeError:
        return None


def _as_devices(lists: Lists) -> Devices:
    return decode(Devices, {"hostDevices": lists.hosts, "gpus": lists.gpus})


def _are_same(one: Devices, other: Devices) -> bool:
    """An empty list is as good as none."""
    return all(
        list(ours) == list(theirs)
        for ours, theirs in ((one.host_devices, other.host_devices), (one.gpus, other.gpus))
    )


def _cannot_start(asked: Lists) -> bool:
    entries = [*asked.hosts, *asked.gpus]
    return bool(in_both(asked)) or told_apart(entries) != entries


def _lists(raw: Json) -> Lists:
    return Lists(list(items(at(raw, _HOST_DEVICES))), list(items(at(raw, _GPUS))))


def _in_place(asked: Lists, stored: Lists, world: World, *, filled_in: bool) -> Lists:
    """`hostDevices` and `gpus` as they are to be."""
    # First of each list: an entry that moves to the other one is known there by its name.
    asked = Lists(told_apart(asked.hosts), told_apart(asked.gpus))
    found = arranged(asked, stored, world, filled_in=filled_in)
    hosts = told_apart(found.hosts)
    return Lists(hosts, with_displays(told_apart(found.gpus, hosts), world))


def _with_group_members(
    lists: Lists, stored: Lists, world: World, *, filled_in: bool
) -> tuple[Lists, GroupMembers]:
    """The lists and what the devices bring along, each group member in the list of its resource."""
    members = group_members_of(_as_devices(lists).all, world)
    if not members.claimed:
        return lists, members
    more = [
        {"name": member.name, "deviceName": member.device_name} for member, _ in members.claimed
    ]
    asked = Lists([*lists.hosts, *more], lists.gpus)
    return _in_place(asked, stored, world, filled_in=filled_in), members


def _put_lists(raw: Json, lists: Lists) -> Iterator[PatchOperation]:
    before = _lists(raw)
    for path, entries, had in (
        (_HOST_DEVICES, lists.hosts, before.hosts),
        (_GPUS, lists.gpus, before.gpus),
    ):
        if entries != had:
            yield put(raw, path, entries) if entries else remove(path)


def _reserve(raw: Json, wanted: str | None, ours: Json) -> Iterator[PatchOperation]:
    """The memory that devices take beyond what KubeVirt adds, unless the user has said some."""
    reserved, said = at(raw, _RESERVED), at(raw, _ADDED)
    if (
        not isinstance(reserved, Mapping | None)
        or (said is not None and said != ours)
        or said == wanted
    ):
        return
    if wanted is not None:
        yield put(raw, _ADDED, wanted)
    else:
        yield remove(_ADDED if reserved is not None and len(reserved) > 1 else _RESERVED)


def _quantity(devices: Devices, world: World) -> str | None:
    size = overhead.overhead(devices.all, world)
    return overhead.as_quantity(size) if size else None


def _put_mark(raw: Json, mark: str) -> Iterator[PatchOperation]:
    there = at(raw, _MARK)
    if mark and there != mark:
        yield put(raw, _MARK, mark)
    elif there is not None and not mark:
        yield remove(_MARK)


def _keep_mark(raw: Json, old: Json, devices: Devices) -> Iterator[PatchOperation]:
    """Who writes the whole object need not know of the annotation; who knows cannot forge it."""
    mark, before = mark_of(devices), at(old, _MARK)
    if mark == before or at(raw, _MARK) != before:
        yield from _put_mark(raw, mark if mark == before else "")


def _staying(members: GroupMembers, had: Devices | None) -> Iterator[str]:
    """Group members that were just taken out."""
    before = {one.name for one in had.all} if had is not None else set()
    again = [(member.name, device) for member, device in members.claimed if member.name in before]
    for name, device in again[:_MOST]:
        yield (
            f"pcidevice/{name} stays in the VM, because {device} of the same IOMMU group does, "
            "and a group is passed to one VM. Remove all devices of the group, or list all of "
            "them."
        )


def _warnings(
    members: GroupMembers, devices: Devices, world: World, features: Features
) -> Iterator[str]:
    for member, device in members.unclaimed[:_MOST]:
        yield (
            f"pcidevice/{member} is in the IOMMU group of {device} and is not claimed: it also "
            "leaves the node, but the VM does not get it. To use both, claim it and apply the VM "
            "again."
        )
        if command := _claiming(member, world):
            yield command
    size = overhead.overhead(devices.all, world)
    if size > overhead.KUBEVIRTS and not features.reserved_overhead:
        yield (
            f"The tables for these devices need about {overhead.as_quantity(size)} of the pod's "
            "memory, and KubeVirt adds 1Gi: set a larger memory limit, or enable KubeVirt's "
            "feature gate ReservedOverheadMemlock."
        )


def _claiming(name: str, world: World) -> str:
    """The command that claims a device, in a warning of its own for want of room."""
    found, kind = world.pci_devices.get(name), served(PCIDeviceClaim)
    if found is None:
        return ""
    claim = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {"address": found.status.address, "nodeName": found.status.node_name},
    }
    return f"kubectl create -f- <<<'{msgspec.json.encode(claim).decode()}'"
