"""All that Laneway asks of a vCenter.

Every method raises a `VCenterError`; none blocks the event loop. A method that changes something
returns a task as soon as vCenter has taken the order: whether it was carried out, `task` tells, so
that a manager that was killed in between can ask again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import Attached, Backing, Fault, TaskState, VmState
from laneway.core.vsphere.spec.resources import ResourceAllocation


class VCenterError(Exception):
    """vCenter cannot be asked, or does not do it."""


class UnreachableVCenterError(VCenterError):
    """No answer, or none that is vCenter's. The request may have been carried out."""


class LoginRefusedError(VCenterError):
    """Wrong user, password, thumbprint or certificate: trying again does not help."""


class NotFoundInVCenterError(VCenterError):
    """A name that vCenter does not know, or that is not unique; says which, and what there is."""


class FaultError(VCenterError):
    """vCenter refused the request at once."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.type}: {fault.text}")
        self.fault = fault


class Credentials(msgspec.Struct, frozen=True):
    """How to log in. Never printed."""

    user: str
    password: str
    thumbprint: str = ""
    """SHA-1 or SHA-256 of the server's certificate, hexadecimal, colons or none."""
    ca: str = ""
    """PEM. Neither given: the certificate authorities of the system."""

    def __repr__(self) -> str:
        return "Credentials(…)"


class About(msgspec.Struct, frozen=True):
    """Which vCenter it is."""

    version: str
    api_version: str
    instance_uuid: str


class Changed(msgspec.Struct, frozen=True):
    """News of the inventory. The first of a connection tells all hosts and is `complete`."""

    hosts: tuple[Host, ...]
    gone: tuple[str, ...] = ()
    """Refs of hosts that are no more."""
    complete: bool = False


class Place(msgspec.Struct, frozen=True):
    """Where a VM is to be, by names or inventory paths; empty: vCenter's default."""

    datacenter: str = ""
    folder: str = ""
    resource_pool: str = ""
    datastore: str = ""
    cluster: str = ""
    host: str = ""
    """`host-21`: this very host. Empty: DRS chooses when the VM is started."""


class Clone(msgspec.Struct, frozen=True):
    """A VM to make of a template. It is made switched off."""

    name: str
    template: str
    place: Place
    instance_uuid: str
    cpus: int
    cores_per_socket: int
    memory_mib: int
    disk_gib: int = 0
    """0: as in the template."""
    additional_disks_gib: tuple[int, ...] = ()
    """The same of its other disks."""
    linked: bool = False
    snapshot: str = ""
    lock_memory: bool = False
    extra: Mapping[str, str] = {}
    networks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without `extra`: it holds the secrets by which a node joins its cluster."""
        return f"Clone({self.name!r} of {self.template!r})"

    """One card for each."""
    macs: tuple[str, ...] = ()
    """Addresses of these cards, in the same order; empty: vCenter makes one."""
    nested: bool = False
    """Show hardware virtualisation to the guest; else as in the template."""
    cpu: ResourceAllocation = ResourceAllocation()
    memory: ResourceAllocation = ResourceAllocation()


class Addition(msgspec.Struct, frozen=True):
    """A device to attach. Keys are negative and differ within one request."""

    key: int
    backing: Backing
    group: str = ""
    """Name of the vendor device group that it is a part of."""
    group_key: int = 0
    sequence: int = 0


class Reconfiguration(msgspec.Struct, frozen=True):
    """Changes to a VM, in one task: all or none."""

    add: tuple[Addition, ...] = ()
    remove: tuple[Attached, ...] = ()
    extra: Mapping[str, str] = {}
    """An empty value removes the key."""
    lock_memory: bool | None = None
    cpu_hot_add: bool | None = None


class VCenter(Protocol):
    """One vCenter, logged in."""

    async def about(self) -> About: ...

    def follow(self) -> AsyncIterator[Changed]:
        """The inventory: all of it at first, then what changes, by the property collector."""
        ...

    async def find(self, instance_uuid: str, bios_uuid: str = "") -> VmState | None:
        """The VM with this instance UUID, or this BIOS UUID."""
        ...

    async def look(self, refs: Sequence[str]) -> dict[str, VmState]:
        """VMs by their refs; those that are no more are left out."""
        ...

    async def named(self, name: str, place: Place) -> VmState | None:
        """The VM of this name in a folder."""
        ...

    async def cluster_of_pool(self, place: Place) -> str:
        """The cluster (`domain-c7`), or lone host, whose resources the pool of a place divides."""
        ...

    async def at_work(self, template: str, place: Place) -> tuple[str, ...]:
        """Tasks at work on a template, named as in a `Clone`: clones of it that are under way."""
        ...

    async def clone(self, clone: Clone) -> str: ...

    async def reconfigure(self, vm: str, change: Reconfiguration) -> str: ...

    async def upgrade(self, vm: str, hardware_version: int) -> str: ...

    async def relocate(self, vm: str, host: str) -> str:
        """Register a switched-off VM on another host."""
        ...

    async def power_on(self, vm: str) -> str: ...

    async def power_off(self, vm: str) -> str: ...

    async def shut_down_guest(self, vm: str) -> None:
        """Ask the guest to shut down; it may not."""
        ...

    async def destroy(self, vm: str) -> str: ...

    async def join_group(self, vm: str, cluster: str, group: str) -> str:
        """Make a VM member of a VM group of a cluster."""
        ...

    async def task(self, task: str) -> TaskState | None:
        """How far a task is; None: vCenter has forgotten it."""
        ...

    async def finished(self, task: str) -> TaskState:
        """Wait for its end, by the property collector."""
        ...

    async def cancel(self, task: str) -> None:
        """Ask vCenter to give a task up; not every task can be."""
        ...
