"""A host of vCenter as the facts that count, and these facts as a `Host`.

A host tells hundreds of PCI devices, as objects of fifteen fields each. What it tells is boiled
down as it arrives, with texts and ids shared between hosts, so that a fleet takes little memory and
one that changes is put together again from what is kept.

Numbers come in three forms: signed 16 bits here, plain in device groups, hexadecimal text nowhere
that is read. All are masked.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from laneway.core.vsphere.inventory.hosts import Device, Host, Profile, SharedGpu, VgpuUser
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.vcenter.config_targets import Target
from laneway.vsphere.vcenter.escaping import unescaped
from laneway.vsphere.vcenter.properties import ref_of

SHARED_DIRECT = "sharedDirect"
_OFFERABLE = ("shared", "direct")
"""Graphics types of GPUs that could be given away whole; `basic` is the console's."""

_LABEL = "hardwareLabel"
_DISPLAY = 0x03
_PLUMBING = (0x06, 0x08)
"""PCI base classes of bridges and of parts of the GPU, most of what a host tells."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2,3}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


class Slot(NamedTuple):
    """What is in a PCI slot."""

    ids: PciIds
    name: str
    display: bool


class Card(NamedTuple):
    """A GPU as the host's graphics tell it."""

    id: str
    name: str
    type: str
    mode: str
    memory_gib: int
    vms: tuple[str, ...]


class Passed(NamedTuple):
    """How a device stands with passthrough."""

    active: bool
    label: str


class Facts(msgspec.Struct, gc=False):
    """All that is kept of one host; `take` changes it as vCenter tells."""

    ref: str
    name: str = ""
    parent: str = ""
    slots: dict[str, Slot] = {}
    passed: dict[str, Passed] = {}
    cards: tuple[Card, ...] = ()
    default_type: str = ""
    profiles: tuple[str, ...] = ()
    migrating: frozenset[str] = frozenset()
    bindings: dict[str, str] = {}
    labels: dict[str, str] = {}
    connected: bool = False
    maintenance: bool = False

    def take(self, path: str, value: Any) -> None:
        """One property; None: the host has no such any more."""
        _TAKE[path](self, value)

    def users(self) -> set[str]:
        """VMs on its GPUs."""
        return {vm for card in self.cards if card.type == SHARED_DIRECT for vm in card.vms}

    def offers(self) -> tuple[object, ...]:
        """What its configuration target depends on: who uses it is not among it."""
        return (
            self.connected,
            tuple(card._replace(vms=()) for card in self.cards),
            self.profiles,
            tuple(self.passed.items()),
            tuple(self.labels.items()),
        )


@lru_cache(maxsize=4096)
def _slot(ids: PciIds, name: str, display: bool) -> Slot:
    """One object for all equal cards of a fleet."""
    return Slot(ids, name, display)


def _address(text: str | None) -> str:
    return sys.intern((text or "").lower())


def _take_slots(facts: Facts, value: Iterable[Any] | None) -> None:
    facts.slots = {
        _address(one.id): _slot(
            PciIds(
                one.vendorId & 0xFFFF,
                one.deviceId & 0xFFFF,
                one.subVendorId & 0xFFFF,
                one.subDeviceId & 0xFFFF,
            ),
            one.deviceName or "",
            (one.classId & 0xFFFF) >> 8 == _DISPLAY,
        )
        for one in value or ()
        if (one.classId & 0xFFFF) >> 8 not in _PLUMBING
    }


def _take_passed(facts: Facts, value: Iterable[Any] | None) -> None:
    facts.passed = {
        _address(one.id): Passed(bool(one.passthruActive), sys.intern(one.hardwareLabel or ""))
        for one in value or ()
        if one.passthruEnabled or one.passthruActive
    }


def _take_cards(facts: Facts, value: Iterable[Any] | None) -> None:
    facts.cards = tuple(
        Card(
            _address(one.pciId),
            sys.intern(one.deviceName or ""),
            sys.intern(one.graphicsType or ""),
            "" if one.vgpuMode in (None, "none") else sys.intern(one.vgpuMode),
            -(-one.memorySizeInKB >> 20),
            tuple(map(ref_of, one.vm)),
        )
        for one in value or ()
        if one.pciId
    )


def _take_default(facts: Facts, value: Any) -> None:
    facts.default_type = (value.hostDefaultGraphicsType or "") if value else ""


def _take_profiles(facts: Facts, value: Iterable[str] | None) -> None:
    facts.profiles = tuple(sys.intern(name) for name in dict.fromkeys(value or ()))


def _take_capabilities(facts: Facts, value: Iterable[Any] | None) -> None:
    facts.migrating = frozenset(sys.intern(one.vgpu) for one in value or () if one.migrateSupported)


def _take_bindings(facts: Facts, value: Iterable[Any] | None) -> None:
    facts.bindings = {
        at: ref_of(one.vm)
        for one in value or ()
        if one.vm is not None and (at := address_in(one.instanceId))
    }


def _take_overrides(facts: Facts, value: Any) -> None:
    facts.labels = {
        at: sys.intern(str(one.value))
        for one in (value.attributeOverride if value else ())
        if one.name == _LABEL and one.value and (at := address_in(one.instanceId))
    }


def address_in(text: str | None) -> str:
    """The address in `pcip:0000:3b:00.0`; empty for hardware that is no PCI device."""
    found = _ADDRESS.search(text or "")
    return _address(found[0]) if found else ""


def _take_name(facts: Facts, value: str | None) -> None:
    facts.name = unescaped(value or "")


def _take_parent(facts: Facts, value: Any) -> None:
    facts.parent = ref_of(value)


def _take_connection(facts: Facts, value: str | None) -> None:
    facts.connected = value == "connected"


def _take_maintenance(facts: Facts, value: bool | None) -> None:
    facts.maintenance = bool(value)


_TAKE: Mapping[str, Callable[[Facts, Any], None]] = {
    "name": _take_name,
    "parent": _take_parent,
    "hardware.pciDevice": _take_slots,
    "config.pciPassthruInfo": _take_passed,
    "config.graphicsInfo": _take_cards,
    "config.graphicsConfig": _take_default,
    "config.sharedPassthruGpuTypes": _take_profiles,
    "config.sharedGpuCapabilities": _take_capabilities,
    "config.assignableHardwareBinding": _take_bindings,
    "config.assignableHardwareConfig": _take_overrides,
    "runtime.connectionState": _take_connection,
    "runtime.inMaintenanceMode": _take_maintenance,
}

PATHS = tuple(_TAKE)
"""The properties of a host that are read."""


class Around(NamedTuple):
    """Where a host is."""

    datacenter: str = ""
    cluster: str = ""
    cluster_ref: str = ""
    drs: bool = False
    groups_of: tuple[str, ...] = ()


def assembled(
    facts: Facts, around: Around, target: Target, vgpus: Mapping[str, Sequence[str]]
) -> Host:
    """`vgpus`: the profiles of each VM that uses a GPU."""
    shared_gpus = [
        _shared_gpu(facts, card, target) for card in facts.cards if card.type == SHARED_DIRECT
    ]
    using = {card.id: card.vms for card in facts.cards}
    users = _users({gpu.id: using[gpu.id] for gpu in shared_gpus}, shared_gpus, vgpus)
    return Host(
        ref=facts.ref,
        name=facts.name,
        datacenter=around.datacenter,
        cluster=around.cluster or facts.name,
        cluster_ref=around.cluster_ref,
        drs=around.drs,
        groups_of=around.groups_of,
        connected=facts.connected,
        maintenance=facts.maintenance,
        shared_direct=facts.default_type == SHARED_DIRECT,
        devices=_devices(facts),
        shared_gpus=tuple(msgspec.structs.replace(gpu, users=users[gpu.id]) for gpu in shared_gpus),
        device_groups=target.groups,
    )


def _devices(facts: Facts) -> tuple[Device, ...]:
    offered = dict(facts.passed)
    for card in facts.cards:
        if card.type in _OFFERABLE:
            offered.setdefault(card.id, Passed(active=False, label=""))
    using = {card.id: card.vms[0] for card in facts.cards if card.vms}
    return tuple(
        Device(
            id=at,
            ids=slot.ids,
            name=slot.name,
            label=facts.labels.get(at) or passed.label,
            display=slot.display,
            active=passed.active,
            holder=facts.bindings.get(at) or using.get(at, ""),
        )
        for at, passed in sorted(offered.items())
        if (slot := facts.slots.get(at)) is not None
    )


def _shared_gpu(facts: Facts, card: Card, target: Target) -> SharedGpu:
    slot = facts.slots.get(card.id)
    kind = (slot.ids.device, slot.ids.vendor) if slot else None
    here = {
        (each.ids.device, each.ids.vendor)
        for each in map(facts.slots.get, (one.id for one in facts.cards))
        if each
    }
    profiles = []
    for name in facts.profiles:
        profile = target.profiles.get(name)
        if profile is None:
            # Before 7.0.3 profiles are names only, and any GPU of the host may be meant.
            profiles.append(Profile(name, 0, migrates=name in facts.migrating))
        elif kind in profile.kinds or not profile.kinds & here:
            profiles.append(
                Profile(
                    name, profile.memory_gib, profile.mig, profile.compute, name in facts.migrating
                )
            )
    largest = target.largest.get(kind, 0) if kind else 0
    return SharedGpu(card.id, card.name, max(card.memory_gib, largest), card.mode, tuple(profiles))


def _users(
    using: Mapping[str, Sequence[str]],
    shared_gpus: Sequence[SharedGpu],
    vgpus: Mapping[str, Sequence[str]],
) -> dict[str, tuple[VgpuUser, ...]]:
    """Which GPU carries which vGPU of a VM.

    A GPU names the VMs on it, not their vGPUs. A VM on several GPUs has at least one vGPU on
    each; the others are taken to be where the least is used. What no profile is known of counts as
    a vGPU of none.
    """
    users: dict[str, list[VgpuUser]] = {gpu.id: [] for gpu in shared_gpus}
    used: Counter[str] = Counter()
    sizes = {one.name: one.memory_gib for gpu in shared_gpus for one in gpu.profiles}
    offers = {gpu.id: {one.name for one in gpu.profiles} for gpu in shared_gpus}
    boards_of = Counter(vm for vms in using.values() for vm in dict.fromkeys(vms))
    for vm in sorted(boards_of, key=lambda each: (boards_of[each], each)):
        left = sorted(vgpus.get(vm, ()), key=lambda name: -sizes.get(name, 0))
        on = [gpu for gpu, vms in using.items() if vm in vms]
        for gpu in on:
            profile = next((name for name in left if name in offers[gpu]), "")
            profile = profile or (left or [""])[0]
            if profile:
                left.remove(profile)
            users[gpu].append(VgpuUser(vm, profile))
            used[gpu] += sizes.get(profile, 0) or 1
        for profile in left:
            fitting = [gpu for gpu in on if profile in offers[gpu]] or on
            gpu = min(fitting, key=lambda each: used[each])
            users[gpu].append(VgpuUser(vm, profile))
            used[gpu] += sizes.get(profile, 0) or 1
    return {gpu: tuple(of) for gpu, of in users.items()}
