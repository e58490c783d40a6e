"""What the vCenter has: hosts with their GPUs, clusters, resource pools, and VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laneway.core.vsphere.inventory.hosts import (
    Device,
    DeviceGroup,
    GroupPart,
    Host,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    Fault,
    FixedBacking,
    VgpuBacking,
)
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.vcenter.escaping import escaped
from laneway.vsphere.vcenter.inventory_paths import Names
from laneway.vsphere.vcenter.lookup import Places
from laneway.vsphere.vcenter.pyvmomi import vim

PASSTHROUGH, SHARED, DIRECT = "passthrough", "sharedDirect", "direct"
_SLICES = 7
_LARGE_GIB = 16
"""Whole GPUs with more memory need a large address space."""

Machine = Any
"""A `vms.Vm`; that module builds on this one."""


class RefusedError(Exception):
    """vCenter does not do what was ordered."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.fault = Fault(kind, text)


@dataclass
class Gpu:
    """A PCI device that VMs can have; the keys of an inventory file."""

    id: str
    vendor: int
    device: int
    sub_vendor: int
    sub_device: int
    name: str
    memory_gib: int
    mode: str
    vgpu_mode: str
    label: str
    display: bool
    profiles: Mapping[str, Mapping[str, Any]]
    users: dict[str, list[str]] = field(default_factory=dict)
    """Of each VM, by its ref, the profiles; "" is the whole device."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Gpu:
        sub = said.get("subVendorId") or said["vendorId"]
        return cls(
            id=said["id"],
            vendor=said["vendorId"],
            device=said["deviceId"],
            sub_vendor=sub,
            sub_device=said.get("subDeviceId", 0) if said.get("subVendorId") else 1,
            name=said["name"],
            memory_gib=said.get("fbGiB", 0),
            mode=said["mode"],
            vgpu_mode=said.get("vgpuMode") or "sameSize",
            label=said.get("label") or "",
            display=(said.get("classId") or 0x302) >> 8 == 3,
            profiles={one["name"]: one for one in said.get("profiles", ())},
        )

    def fits(self, name: str) -> bool:
        """Whether one more vGPU of a profile can start here."""
        profile = self.profiles.get(name)
        if self.mode != SHARED or profile is None:
            return False
        there = [self.profiles[one] for held in self.users.values() for one in held]
        memory = sum(one["fbGiB"] for one in there) + profile["fbGiB"]
        slices = sum(one.get("slices", 0) for one in there) + profile.get("slices", 0)
        mig = self.vgpu_mode == "multiInstanceGpu"
        if memory > self.memory_gib or slices > _SLICES or (profile["sharing"] == "mig") != mig:
            return False
        alike = all(one["fbGiB"] == profile["fbGiB"] for one in there)
        return mig or self.vgpu_mode == "mixedSize" or alike

    def serves(self, backing: DynamicBacking) -> bool:
        """Whether it is, free or not, what a dynamic backing requests."""
        own = (self.vendor, self.device, self.sub_vendor, self.sub_device)
        return (
            self.mode == PASSTHROUGH
            and backing.label in ("", self.label)
            and any(
                all(not want or want == have for want, have in zip(ids[:4], own, strict=True))
                for ids in backing.allowed
            )
        )

    def as_device(self) -> Device:
        return Device(
            self.id,
            PciIds(self.vendor, self.device, self.sub_vendor, self.sub_device),
            self.name,
            self.label if self.mode == PASSTHROUGH else "",
            self.display,
            active=self.mode == PASSTHROUGH,
            holder=next(iter(self.users), ""),
        )

    def as_shared(self, migrates: bool) -> SharedGpu:
        profiles = tuple(
            Profile(
                name,
                one["fbGiB"],
                mig=one["sharing"] == "mig",
                compute=one["class"] == "compute",
                migrates=migrates,
            )
            for name, one in self.profiles.items()
        )
        users = [VgpuUser(vm, profile) for vm, held in self.users.items() for profile in held]
        return SharedGpu(
            self.id, self.name, self.memory_gib, self.vgpu_mode, profiles, tuple(users)
        )


@dataclass
class Cluster:
    """A compute resource; of a lone host, one of its own."""

    ref: str
    name: str
    lone: bool = False
    drs: bool = True
    host_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vm_groups: dict[str, list[str]] = field(default_factory=dict)
    """Names of groups, and refs of VMs."""
    must_run: Mapping[str, str] = field(default_factory=dict)


@dataclass
class EsxiHost:
    """One host."""

    ref: str
    name: str
    cluster: Cluster
    gpus: list[Gpu]
    groups: tuple[DeviceGroup, ...] = ()
    connected: bool = True
    maintenance: bool = False
    default_graphics: str = ""

    @property
    def usable(self) -> bool:
        return self.connected and not self.maintenance

    @property
    def shared_direct(self) -> bool:
        if self.default_graphics:
            return self.default_graphics == SHARED
        return any(gpu.mode == SHARED for gpu in self.gpus)

    def refuse(self) -> None:
        """Raise where it starts no VM."""
        if not self.connected:
            raise RefusedError("HostNotConnected", "Unable to communicate with the remote host.")
        if self.maintenance:
            raise RefusedError("InvalidState", "Not allowed in the current state of the host.")

    def offers(self, groups: set[str]) -> bool:
        return groups <= {one.name for one in self.groups}

    def take(self, vm: str, devices: Sequence[Attached]) -> dict[int, str] | None:
        """Give a VM all of its devices: their addresses by key; None, and nothing, if one lacks."""
        given: dict[int, str] = {}
        for device in devices:
            gpu = next((one for one in self.gpus if self._can_give(one, device)), None)
            if gpu is None:
                self.drop(vm)
                return None
            backing = device.backing
            profile = backing.profile if isinstance(backing, VgpuBacking) else ""
            gpu.users.setdefault(vm, []).append(profile)
            given[device.key] = gpu.id
        return given

    def _can_give(self, gpu: Gpu, device: Attached) -> bool:
        match device.backing:
            case VgpuBacking(profile):
                return self.shared_direct and gpu.fits(profile)
            case DynamicBacking() as backing:
                return not gpu.users and gpu.serves(backing)
            case FixedBacking(id):
                return not gpu.users and gpu.mode == PASSTHROUGH and gpu.id == id

    def drop(self, vm: str) -> None:
        for gpu in self.gpus:
            gpu.users.pop(vm, None)

    def large_memory(self, vm: str) -> int:
        """GiB of the whole GPUs of a VM whose memory has to be mapped high."""
        return sum(
            gpu.memory_gib
            for gpu in self.gpus
            if gpu.users.get(vm, [None])[0] == "" and gpu.memory_gib > _LARGE_GIB
        )

    def seen(self, api: str) -> Host:
        """As the port tells it."""
        cluster = self.cluster
        groups = cluster.host_groups.items()
        whole = sorted((gpu for gpu in self.gpus if gpu.mode != SHARED), key=lambda gpu: gpu.id)
        return Host(
            ref=self.ref,
            name=self.name,
            datacenter="DC0",
            cluster=cluster.name,
            cluster_ref=cluster.ref,
            drs=cluster.drs,
            groups_of=tuple(sorted(name for name, hosts in groups if self.name in hosts)),
            connected=self.connected,
            maintenance=self.maintenance,
            shared_direct=self.shared_direct,
            devices=tuple(gpu.as_device() for gpu in whole),
            shared_gpus=tuple(gpu.as_shared(True) for gpu in self.gpus if gpu.mode == SHARED),
            device_groups=self.groups if api >= "8" else (),
        )


def device_group(said: Mapping[str, Any]) -> DeviceGroup:
    parts = tuple(
        GroupPart(
            part["kind"],
            part["name"],
            PciIds(part["vendorId"], part["deviceId"]) if part.get("vendorId") else None,
            part.get("profile", ""),
            part.get("label", ""),
        )
        for part in said["parts"]
    )
    return DeviceGroup(said["name"], said.get("description", ""), parts)


class Inventory(Places):
    """Names and paths, found as the adapter finds them: only where they come from differs."""

    def __init__(self) -> None:
        super().__init__()
        self._things: dict[str, dict[str, Any]] = {}
        self._number = 0
        self.pool_owner: dict[str, str] = {}
        """The compute resource of each pool, by their refs."""
        self.root = self.add(vim.Datacenter, "DC0", "")
        self.vm_folder, self.host_folder, stores, networks = (
            self.add(vim.Folder, name, self.root) for name in ("vm", "host", "datastore", "network")
        )
        self._things[self.root]["vmFolder"] = vim.Folder(self.vm_folder)
        self.add(vim.Datastore, "LocalDS_0", stores)
        for name in ("VM Network", "DC0_DVPG0"):
            self.add(vim.Network, name, networks)

    def add(self, kind: Any, name: str, parent: str, prefix: str = "") -> str:
        """A new object of the inventory; its ref."""
        self._number += 1
        ref = f"{prefix or kind.__name__.rpartition('.')[2].lower()}-{self._number}"
        above = self._things[parent][""] if parent else None
        self._things[ref] = {"": kind(ref), "name": escaped(name), "parent": above}
        return ref

    def add_compute(self, name: str, *, lone: bool) -> str:
        """A cluster, or what stands for one above a lone host, with its root pool."""
        kind = vim.ComputeResource if lone else vim.ClusterComputeResource
        ref = self.add(kind, name, self.host_folder)
        pool = self.add_pool(ref, "Resources", ref)
        self._things[ref]["resourcePool"] = vim.ResourcePool(pool)
        return ref

    def add_pool(self, compute: str, name: str, parent: str = "") -> str:
        above = parent or self.root_pool(compute)
        ref = self.add(vim.ResourcePool, name, above, "resgroup")
        self.pool_owner[ref] = compute
        return ref

    def root_pool(self, compute: str) -> str:
        return str(self._things[compute]["resourcePool"]._moId)

    def names(self, content: Any = None, stub: Any = None) -> Names:
        return Names(self._things)
