"""VMs, and what vCenter does with them: clones, reconfigures, moves, starts, stops, deletes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    FixedBacking,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.port import Addition, Clone, Reconfiguration
from support.memory_vcenter.tasks import ReachedError
from support.memory_vcenter.world import EsxiHost, RefusedError

FIRST_KEY = 13000
MOST_DEVICES = 16
NEWEST_HARDWARE = 21
DYNAMIC_HARDWARE = 17
_LOW = "InvalidArgument"
_STATE = "InvalidPowerState"


@dataclass
class Vm:
    """One VM, or template."""

    ref: str
    name: str
    folder: str
    pool: str
    host: EsxiHost
    instance_uuid: str
    bios_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    hardware: int = 17
    on: bool = False
    template: bool = False
    efi: bool = True
    nested: bool = False
    memory_locked: bool = False
    memory_mib: int = 32
    extra: dict[str, str] = field(default_factory=dict)
    devices: tuple[Attached, ...] = ()
    macs: tuple[str, ...] = ()
    reported: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What its guest tells: by MAC address, addresses."""
    main: str = ""
    has_address: bool = False
    """Its guest tells one that vCenter has given it."""
    readable: bool = True
    starts: int = 0

    @property
    def groups(self) -> set[str]:
        return {one.group_name for one in self.devices if one.group}

    def state(self, tasks: tuple[str, ...]) -> VmState:
        """As the port tells it."""
        if not self.readable:
            return VmState(
                ref=self.ref,
                name=self.name,
                instance_uuid="",
                bios_uuid="",
                hardware_version=0,
                on=self.on,
                host=self.host.ref,
                host_name=self.host.name,
                tasks=tasks,
            )
        cards = {mac.lower() for mac in self.macs}
        addresses = [one for mac, all_ in self.reported if mac.lower() in cards for one in all_]
        reached = [
            one for one in dict.fromkeys(addresses) if not one.startswith(("fe80", "169.254"))
        ]
        return VmState(
            ref=self.ref,
            name=self.name,
            instance_uuid=self.instance_uuid.lower(),
            bios_uuid=self.bios_uuid,
            hardware_version=self.hardware,
            on=self.on,
            host=self.host.ref,
            host_name=self.host.name,
            # Of groups the simulator, like an older vCenter, tells no name.
            devices=tuple(msgspec.structs.replace(one, group_name="") for one in self.devices),
            memory_locked=self.memory_locked,
            nested=self.nested,
            efi=self.efi,
            extra={k: v for k, v in self.extra.items() if k.startswith("pciPassthru")},
            addresses=tuple(sorted(reached, key=lambda one: one != self.main)[:127]),
            macs=self.macs,
            tasks=tasks,
        )

    def truth(self) -> dict[str, Any]:
        """As tests see it."""
        return {
            "ref": self.ref,
            "name": self.name,
            "instanceUuid": self.instance_uuid,
            "biosUuid": self.bios_uuid,
            "on": self.on,
            "template": self.template,
            "host": self.host.name,
            "version": f"vmx-{self.hardware}",
            "memoryLocked": self.memory_locked,
            "ip": self.main,
            "extra": dict(self.extra),
            "devices": [_truth_of(one) for one in self.devices],
        }

    def settle(self, extra: dict[str, str]) -> None:
        """Each key of extraConfig once; an empty value removes it."""
        self.extra = {key: value for key, value in {**self.extra, **extra}.items() if value}

    def attach(self, more: Sequence[tuple[Any, int, str]]) -> None:
        """Backings, each with the key and the name of its group."""
        used = {one.key for one in self.devices}
        keys = (key for key in range(FIRST_KEY, FIRST_KEY + 1000) if key not in used)
        self.devices += tuple(
            Attached(next(keys), backing, group, name) for backing, group, name in more
        )


def _truth_of(one: Attached) -> dict[str, Any]:
    found: dict[str, Any] = {"key": one.key}
    match one.backing:
        case VgpuBacking(profile):
            found["profile"] = profile
        case DynamicBacking(allowed, label, assigned):
            found |= {"allowed": [[*ids[:2]] for ids in allowed]}
            found |= {"label": label} if label else {}
            found |= {"assigned": f"pcip:{assigned}"} if assigned else {}
        case FixedBacking(id):
            found["fixed"] = id
    return found | ({"group": one.group_name} if one.group_name else {})


def template_devices(said: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, int, str]]:
    for one in said:
        if profile := one.get("profile"):
            yield VgpuBacking(profile), 0, ""
        else:
            ids = PciIds(one["vendorId"], one["deviceId"])
            yield DynamicBacking((ids,), one.get("label", "")), 0, ""


def cloned(source: Vm, clone: Clone, ref: str, *, host: EsxiHost, folder: str, pool: str) -> Vm:
    """What a template becomes."""
    vm = replace(
        source,
        ref=ref,
        name=clone.name,
        folder=folder,
        pool=pool,
        host=host,
        instance_uuid=clone.instance_uuid or str(uuid.uuid4()),
        bios_uuid=str(uuid.uuid4()),
        on=False,
        template=False,
        nested=clone.nested or source.nested,
        memory_locked=clone.lock_memory or source.memory_locked,
        memory_mib=clone.memory_mib,
        devices=tuple(_free(one) for one in source.devices),
        reported=(),
        main="",
        has_address=False,
        starts=0,
    )
    cards = len(clone.networks) or len(source.macs)
    given = [*clone.macs, *[""] * cards][:cards]
    vm.macs = tuple(mac or new_mac() for mac in given)
    vm.settle(dict(clone.extra))
    return vm


def new_mac() -> str:
    return "00:50:56:" + ":".join(f"{byte:02x}" for byte in uuid.uuid4().bytes[:3])


def _free(one: Attached) -> Attached:
    if isinstance(one.backing, DynamicBacking) and one.backing.assigned:
        backing = msgspec.structs.replace(one.backing, assigned="")
        return msgspec.structs.replace(one, backing=backing)
    return one


def reconfigure(vm: Vm, change: Reconfiguration, offered: dict[str, int]) -> None:
    """`offered`: of how many devices the groups are that hosts offer. All of it, or nothing."""
    removed = {one.key for one in change.remove}
    if removed - {one.key for one in vm.devices}:
        raise RefusedError("InvalidDeviceSpec", "Invalid configuration for device '0'.")
    if vm.on and (removed or change.add):
        raise RefusedError(_STATE, "The attempted operation cannot be performed (Powered on).")
    left = tuple(one for one in vm.devices if one.key not in removed)
    if change.add:
        _refuse_additions(vm, change.add, len(left), offered)
    vm.devices = left
    vm.attach([(one.backing, one.group_key, one.group) for one in change.add])
    vm.settle(dict(change.extra))
    if change.lock_memory is not None:
        vm.memory_locked = change.lock_memory


def _refuse_additions(vm: Vm, add: Sequence[Addition], left: int, offered: dict[str, int]) -> None:
    if len({one.key for one in add}) < len(add):
        raise RefusedError(_LOW, "Cannot add multiple devices using the same device key.")
    if vm.nested:
        raise RefusedError(
            "GenericVmConfigFault",
            "PCI passthrough devices cannot be added when Nested Hardware-Assisted "
            "Virtualization is enabled.",
        )
    if vm.hardware < DYNAMIC_HARDWARE and any(
        isinstance(one.backing, DynamicBacking) for one in add
    ):
        raise RefusedError(
            "DeviceUnsupportedForVmVersion",
            "Dynamic DirectPath I/O needs virtual hardware version 17 or later.",
        )
    if left + len(add) > MOST_DEVICES:
        raise RefusedError("TooManyDevices", "There are too many devices of PCI passthrough.")
    sizes = {(one.group_key, one.group): 0 for one in add if one.group}
    for one in add:
        if one.group:
            sizes[one.group_key, one.group] += 1
    if any(offered.get(name) != size for (_, name), size in sizes.items()):
        raise RefusedError(_LOW, "A specified parameter was not correct: configSpec.deviceGroups")


def upgrade(vm: Vm, version: int) -> None:
    if vm.on:
        raise RefusedError(_STATE, "The attempted operation cannot be performed (Powered on).")
    if not 4 <= version <= NEWEST_HARDWARE:
        raise RefusedError(_LOW, "A specified parameter was not correct: version")
    if version <= vm.hardware:
        raise RefusedError("AlreadyUpgraded", "The virtual machine is already up-to-date.")
    vm.hardware = version


def refuse_start(vm: Vm) -> None:
    if vm.on:
        raise ReachedError(_STATE, "The attempted operation cannot be performed (Powered on).")
    if vm.devices and not vm.memory_locked:
        raise RefusedError(
            "GenericVmConfigFault",
            "Invalid memory setting: memory reservation (sched.mem.min) should be equal to "
            f"memsize({vm.memory_mib}).",
        )


def refuse_mapping(vm: Vm, host: EsxiHost) -> None:
    """Whole GPUs with much memory need UEFI, and keys that make room for them above 4 GiB."""
    memory = host.large_memory(vm.ref)
    size = int(vm.extra.get("pciPassthru.64bitMMIOSizeGB") or 0)
    large = vm.extra.get("pciPassthru.use64bitMMIO", "").lower() == "true"
    if memory and not (vm.efi and large and size > memory):
        raise RefusedError("GenericVmConfigFault", "Module 'DevicePowerOn' power on failed.")


def no_room(vm: Vm) -> RefusedError:
    if any(isinstance(one.backing, VgpuBacking) for one in vm.devices):
        return RefusedError(
            "InsufficientGraphicsResourcesFault",
            "The amount of graphics resource available in the parent resource pool is "
            "insufficient for the operation.",
        )
    return RefusedError(
        "InsufficientHostCapacityFault",
        f"Insufficient resources. One or more devices (pciPassthru0) required by VM {vm.name} "
        f"are not available on host {vm.host.name}.",
    )


def started(vm: Vm, host: EsxiHost, given: dict[int, str]) -> None:
    vm.host, vm.on, vm.starts = host, True, vm.starts + 1
    vm.devices = tuple(
        msgspec.structs.replace(
            one, backing=msgspec.structs.replace(one.backing, assigned=given[one.key])
        )
        if isinstance(one.backing, DynamicBacking)
        else one
        for one in vm.devices
    )


def stopped(vm: Vm) -> None:
    vm.host.drop(vm.ref)
    vm.on = False
    vm.devices = tuple(_free(one) for one in vm.devices)
    vm.reported, vm.main, vm.has_address = (), "", False


def detach(vm: Vm, key: int) -> None:
    """A device goes, whatever the VM does; 0: the first."""
    gone = next(one for one in vm.devices if key in (0, one.key))
    vm.devices = tuple(one for one in vm.devices if one is not gone)
    for gpu in vm.host.gpus:
        held = gpu.users.get(vm.ref, [])
        match gone.backing:
            case VgpuBacking(profile) if profile in held:
                held.remove(profile)
            case DynamicBacking(assigned=at) if at == gpu.id and held:
                held.clear()
            case _:
                continue
        if not held:
            del gpu.users[vm.ref]
        return
