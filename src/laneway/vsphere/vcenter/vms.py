"""VMs as vCenter shows them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any

from laneway.core.vsphere.inventory.vms import (
    Attached,
    Backing,
    DynamicBacking,
    FixedBacking,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.vcenter.escaping import unescaped
from laneway.vsphere.vcenter.hosts import address_in
from laneway.vsphere.vcenter.properties import Properties, read, ref_of
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.stub import Stub

_PATHS = (
    "name",
    "config.instanceUuid",
    "config.uuid",
    "config.version",
    "config.firmware",
    "config.nestedHVEnabled",
    "config.memoryReservationLockedToMax",
    "config.extraConfig",
    "config.hardware.device",
    "runtime.host",
    "runtime.powerState",
    "guest.ipAddress",
    "guest.net",
    "recentTask",
)

KEPT_S = 60.0
"""How long a host is taken to have the name that it had."""

_GROUPS = "config.deviceGroups"
"""Since 8.0.0.1; an older vCenter refuses every request that has it."""

_MOST_ADDRESSES = 127
"""CAPV's definitions have room for 128, and one is the machine's name."""

_EXTRA = "pciPassthru"
"""All that is kept of `extraConfig`: the rest is long, and may have secrets, as user data."""


class Known:
    """What of the surroundings of VMs need not be asked each time. For all threads."""

    def __init__(self, has_ended: Callable[[str], bool]) -> None:
        self.has_ended = has_ended
        """Whether the end of a task is known."""
        self._hosts: dict[str, tuple[float, Properties]] = {}

    def host(self, ref: str) -> Properties | None:
        read, props = self._hosts.get(ref, (0.0, None))
        return props if time.monotonic() - read < KEPT_S else None

    def take(self, ref: str, props: Properties) -> None:
        self._hosts[ref] = time.monotonic(), props


def look(content: Any, stub: Stub, refs: Sequence[str], known: Known) -> dict[str, VmState]:
    """VMs by their refs, in one request or two; those that are no more are left out."""
    vms = [vim.VirtualMachine(ref, stub) for ref in dict.fromkeys(refs)]
    try:
        by_ref = read(content, stub, vms, {vim.VirtualMachine: (*_PATHS, _GROUPS)})
    except vmodl.query.InvalidProperty:
        by_ref = read(content, stub, vms, {vim.VirtualMachine: _PATHS})
    seen = _around(content, stub, by_ref.values(), known)
    return {ref: vm_state(ref, vm, seen) for ref, vm in by_ref.items() if "name" in vm}


def _around(
    content: Any, stub: Stub, vms: Iterable[Properties], known: Known
) -> dict[str, Properties]:
    """The names of their hosts, and how far tasks are that may not have ended."""
    seen: dict[str, Properties] = {}
    request: dict[str, Any] = {}
    for vm in vms:
        if (host := vm.get("runtime.host")) is not None:
            if (props := known.host(ref_of(host))) is not None:
                seen[ref_of(host)] = props
            else:
                request[ref_of(host)] = host
        for task in vm.get("recentTask") or ():
            if not known.has_ended(ref_of(task)):
                request[ref_of(task)] = task
    kinds = {vim.HostSystem: ["name"], vim.Task: ["info.state"]}
    for ref, props in read(content, stub, request.values(), kinds).items():
        seen[ref] = props
        if "name" in props:
            known.take(ref, props)
    return seen


def at_work(content: Any, stub: Stub, vm: Any) -> tuple[str, ...]:
    """Tasks that have not ended, of a VM or template."""
    by_ref = read(content, stub, [vm], {vim.VirtualMachine: ["recentTask"]})
    recent = by_ref.get(ref_of(vm), {}).get("recentTask") or ()
    seen = read(content, stub, recent, {vim.Task: ["info.state"]})
    return _at_work(recent, seen)


def _at_work(recent: Iterable[Any], seen: dict[str, Properties]) -> tuple[str, ...]:
    refs = map(ref_of, recent)
    return tuple(ref for ref in refs if seen.get(ref, {}).get("info.state") in _AT_WORK)


def vm_state(ref: str, props: Properties, around: dict[str, Properties]) -> VmState:
    """Of a VM that is being made, vCenter tells no `config` yet: it has no devices then."""
    host = ref_of(props.get("runtime.host"))
    return VmState(
        ref=ref,
        name=unescaped(props["name"]),
        instance_uuid=(props.get("config.instanceUuid") or "").lower(),
        bios_uuid=(props.get("config.uuid") or "").lower(),
        hardware_version=hardware_version(props.get("config.version") or ""),
        on=props.get("runtime.powerState") == vim.VirtualMachine.PowerState.poweredOn,
        host=host,
        host_name=unescaped(around.get(host, {}).get("name", "")),
        devices=attached(props.get("config.hardware.device") or (), props.get(_GROUPS)),
        memory_locked=bool(props.get("config.memoryReservationLockedToMax")),
        nested=bool(props.get("config.nestedHVEnabled")),
        efi=props.get("config.firmware") == "efi",
        extra={
            item.key: str(item.value)
            for item in props.get("config.extraConfig") or ()
            if item.key.startswith(_EXTRA)
        },
        addresses=_addresses(props),
        macs=_macs(props.get("config.hardware.device") or ()),
        tasks=_at_work(props.get("recentTask") or (), around),
    )


_AT_WORK = (vim.TaskInfo.State.queued, vim.TaskInfo.State.running)


def hardware_version(text: str) -> int:
    """19 of `vmx-19`; 0 of anything else."""
    found = re.fullmatch(r"vmx-0*(\d{1,3})", text)
    return int(found[1]) if found else 0


def _addresses(props: Properties) -> tuple[str, ...]:
    """By which others reach the guest, its main one first.

    A guest tells those of its bridges and services, too: only what is on a card of the VM counts.
    """
    cards = {mac.lower() for mac in _macs(props.get("config.hardware.device") or ()) if mac}
    found = [
        address
        for card in props.get("guest.net") or ()
        if (card.macAddress or "").lower() in cards
        for address in card.ipAddress
        if _is_reached(address)
    ]
    main = props.get("guest.ipAddress")
    ordered = sorted(dict.fromkeys(found), key=lambda address: address != main)
    return tuple(ordered[:_MOST_ADDRESSES])


def _is_reached(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (
        address.is_link_local
        or address.is_loopback
        or address.is_multicast
        or address.is_unspecified
    )


def _macs(devices: Iterable[Any]) -> tuple[str, ...]:
    cards = [one for one in devices if isinstance(one, vim.vm.device.VirtualEthernetCard)]
    return tuple(card.macAddress or "" for card in sorted(cards, key=lambda card: card.key))


def attached(devices: Iterable[Any], groups: Any = None) -> tuple[Attached, ...]:
    """The passthrough devices among the devices of a VM; `groups`: its `VirtualDeviceGroups`."""
    names = {
        group.groupInstanceKey: getattr(group, "deviceGroupName", None) or ""
        for group in (groups.deviceGroup if groups else ())
    }
    found = []
    for device in devices:
        if isinstance(device, vim.vm.device.VirtualPCIPassthrough):
            backing = _backing(device.backing)
            if backing is not None:
                info = getattr(device, "deviceGroupInfo", None)
                group = info.groupInstanceKey if info else 0
                found.append(Attached(device.key, backing, group, names.get(group, "")))
    return tuple(found)


_Passthrough = vim.vm.device.VirtualPCIPassthrough


def _backing(backing: Any) -> Backing | None:
    match backing:
        case _Passthrough.VmiopBackingInfo():
            return VgpuBacking(backing.vgpu or "")
        case _Passthrough.DynamicBackingInfo():
            return DynamicBacking(
                tuple(_ids(allowed) for allowed in backing.allowedDevice),
                backing.customLabel or "",
                address_in(backing.assignedId),
            )
        case _Passthrough.DeviceBackingInfo():
            return FixedBacking(backing.id or "")
        case _:
            return None  # a virtual device of a vendor (DVX): not a GPU, and not ours


def _ids(allowed: Any) -> PciIds:
    def number(value: int | None) -> int | None:
        return None if value is None else value & 0xFFFF

    return PciIds(
        allowed.vendorId & 0xFFFF,
        allowed.deviceId & 0xFFFF,
        number(allowed.subVendorId),
        number(allowed.subDeviceId),
        number(allowed.revisionId),
    )
