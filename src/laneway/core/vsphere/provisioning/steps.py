"""What to do next for one machine, decided from what is desired and what vCenter shows.

Nothing is remembered between two decisions but what cannot be observed: so a manager that is killed
at any moment goes on from what there is. Three rules keep that safe:

- Nothing is ordered while a task is at work on the VM, or on its way to become one. A clone whose
  answer was lost is waited for (`AwaitClone`) before another is ordered or the machine is given up.
- Devices are reserved before anything is ordered, and released only once there is no VM.
- What is to be attached or taken away is the difference between what is requested and what the VM
  has, and it is on only when there is none. Devices of its template that it does not request are
  removed; a machine that requests none keeps what its template has, as it always did.

A machine that is on is never mended: passthrough devices cannot be attached to it, so one that has
lost a device says so. One that vanished is not made again: its name and its node are gone with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from laneway.core.vsphere.inventory.vms import Attached, TaskState, VmState
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.matching import NO_PARTS, match
from laneway.core.vsphere.spec.requests import DeviceRequest, Requested, VgpuRequest

DYNAMIC_HARDWARE = 17
"""The first hardware version that knows Dynamic DirectPath I/O (vSphere 7)."""


class PowerOffMode(StrEnum):
    """How a machine is switched off that is to be deleted; CAPV's words."""

    HARD = "hard"
    SOFT = "soft"
    """The guest is asked, and waited for as long as it takes."""
    TRY_SOFT = "trySoft"
    """The guest is asked, and switched off when it takes too long."""


class DesiredVm(msgspec.Struct, frozen=True):
    """What a machine is to be."""

    requested: Requested = Requested()
    parts: Mapping[str, int] = NO_PARTS
    """Of how many devices the groups are that it requests, by name."""
    hardware_version: int = 0
    """At least this one; 0: whatever the template has."""
    group: str = ""
    """VM group that it must be in before it is switched on; empty: none."""
    metadata_set: bool = False
    """The settings of its network cards can only be written when these have addresses."""
    placed: bool = False
    """It is to be on the reserved host itself: DRS does not place it."""
    power_off: PowerOffMode = PowerOffMode.HARD
    deleted: bool = False


class History(msgspec.Struct, frozen=True):
    """What was done before and cannot be seen in the VM."""

    made: bool = False
    """There was a VM."""
    ordered: bool = False
    """A clone may have been ordered of which no task is known."""
    clone_awaited: bool = False
    """Such a clone has been waited for."""
    one_by_one: bool = False
    """Several devices in one request were refused: one task for each."""
    metadata_set: bool = False
    """The settings of its network cards are written."""
    in_vm_group: bool = False
    """It is in its VM group."""
    excluded: Collection[str] = frozenset()
    """Hosts that would not take or start it."""
    cancelled: bool = False
    """vCenter has been asked to give up the task."""
    guest_asked: bool = False
    """The guest has been asked to shut down."""
    patience: bool = True
    """The guest may still take its time."""


class AwaitTask(msgspec.Struct, frozen=True, tag=True):
    """A task is at work."""

    task: str


class CancelTask(msgspec.Struct, frozen=True, tag=True):
    """Have vCenter cancel a task that is not needed any more."""

    task: str


class AwaitClone(msgspec.Struct, frozen=True, tag=True):
    """Wait for the end of a clone that may be under way without our knowing its task."""


class Reserve(msgspec.Struct, frozen=True, tag=True):
    """Have the devices reserved, on none of the hosts that would not take or start the machine."""


class CloneTemplate(msgspec.Struct, frozen=True, tag=True):
    """Make the VM, off."""

    host: str
    """Empty: vCenter places it when it is started."""


class Relocate(msgspec.Struct, frozen=True, tag=True):
    """Register the VM, which is off, on another host."""

    host: str


class Upgrade(msgspec.Struct, frozen=True, tag=True):
    """Give the VM newer hardware."""

    version: int


class Reconfigure(msgspec.Struct, frozen=True, tag=True):
    """Bring the devices of the VM nearer to what is requested, in one request."""

    add: tuple[DeviceRequest, ...] = ()
    remove: tuple[Attached, ...] = ()


class SetGuestMetadata(msgspec.Struct, frozen=True, tag=True):
    """Write the settings of its network cards, which have their addresses only now."""


class JoinVmGroup(msgspec.Struct, frozen=True, tag=True):
    """Make the VM member of its VM group, which counts only before it is switched on."""


class PowerOn(msgspec.Struct, frozen=True, tag=True):
    """Start it."""


class AwaitAddresses(msgspec.Struct, frozen=True, tag=True):
    """It is on; its guest has not reported an address."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """It is what it is to be."""


class DevicesLost(msgspec.Struct, frozen=True, tag=True):
    """It is on without devices that it should have."""

    missing: tuple[DeviceRequest, ...]


class VmDeleted(msgspec.Struct, frozen=True, tag=True):
    """The VM was deleted in vCenter."""


class ShutDownGuest(msgspec.Struct, frozen=True, tag=True):
    """Ask the guest to shut down."""


class AwaitGuestShutdown(msgspec.Struct, frozen=True, tag=True):
    """The guest is shutting down."""


class PowerOff(msgspec.Struct, frozen=True, tag=True):
    """Stop it, whatever it does."""


class Destroy(msgspec.Struct, frozen=True, tag=True):
    """Delete the VM with its disks."""


class ReleaseReservation(msgspec.Struct, frozen=True, tag=True):
    """There is no VM: its devices are free."""


class RemoveFinalizer(msgspec.Struct, frozen=True, tag=True):
    """Nothing is left of it."""


Step: TypeAlias = (
    AwaitTask
    | CancelTask
    | AwaitClone
    | Reserve
    | CloneTemplate
    | Relocate
    | Upgrade
    | Reconfigure
    | SetGuestMetadata
    | JoinVmGroup
    | PowerOn
    | AwaitAddresses
    | Ready
    | DevicesLost
    | VmDeleted
    | ShutDownGuest
    | AwaitGuestShutdown
    | PowerOff
    | Destroy
    | ReleaseReservation
    | RemoveFinalizer
)


def next_step(
    desired: DesiredVm,
    vm: VmState | None,
    reservation: Reservation | None,
    task: tuple[str, TaskState] | None,
    history: History,
) -> Step:
    """The one thing to do now. `task` is the last one ordered, as far as it is known."""
    if (waiting := _at_work(vm, task)) is not None:
        abandoned = desired.deleted and vm is None and not history.cancelled
        return CancelTask(waiting) if abandoned else AwaitTask(waiting)
    if desired.deleted:
        return _deletion(desired, vm, reservation, history)
    if vm is None:
        return _creation(desired, reservation, history)
    if vm.on:
        if missing := match(desired.requested, vm.devices, desired.parts).missing:
            return DevicesLost(missing)
        return Ready() if vm.addresses else AwaitAddresses()
    return _preparation(desired, vm, reservation, history)


def _at_work(vm: VmState | None, task: tuple[str, TaskState] | None) -> str | None:
    if task is not None and not task[1].done:
        return task[0]
    return vm.tasks[0] if vm is not None and vm.tasks else None


def _creation(desired: DesiredVm, reservation: Reservation | None, history: History) -> Step:
    if history.made:
        return VmDeleted() if reservation is None else ReleaseReservation()
    if history.ordered and not history.clone_awaited:
        return AwaitClone()
    if _unreserved(desired, reservation, history):
        return Reserve()
    return CloneTemplate(
        reservation.host if reservation is not None and _placed(desired, history) else ""
    )


def _preparation(
    desired: DesiredVm, vm: VmState, reservation: Reservation | None, history: History
) -> Step:
    if _unreserved(desired, reservation, history):
        return Reserve()
    if reservation is not None and _placed(desired, history) and vm.host != reservation.host:
        return Relocate(reservation.host)
    if vm.hardware_version < (version := hardware_needed(desired)):
        return Upgrade(version)
    missing, surplus = _difference(desired, vm)
    if missing or surplus or (vm.devices and not vm.memory_locked):
        return _change(missing, surplus, one_by_one=history.one_by_one)
    if desired.metadata_set and not history.metadata_set:
        return SetGuestMetadata()
    if desired.group and not history.in_vm_group:
        return JoinVmGroup()
    return PowerOn()


def _difference(
    desired: DesiredVm, vm: VmState
) -> tuple[tuple[DeviceRequest, ...], tuple[Attached, ...]]:
    """What a VM lacks, and what it has that is to be removed."""
    found = match(desired.requested, vm.devices, desired.parts)
    return found.missing, found.surplus if desired.requested.devices else ()


def _change(
    missing: tuple[DeviceRequest, ...], surplus: tuple[Attached, ...], *, one_by_one: bool
) -> Reconfigure:
    if not one_by_one:
        return Reconfigure(missing, surplus)
    if surplus:
        return Reconfigure(remove=surplus)
    return Reconfigure(missing[:1])


def _deletion(
    desired: DesiredVm, vm: VmState | None, reservation: Reservation | None, history: History
) -> Step:
    if vm is None:
        if history.ordered and not history.made and not history.clone_awaited:
            return AwaitClone()
        return RemoveFinalizer() if reservation is None else ReleaseReservation()
    if not vm.on:
        return Destroy()
    if desired.power_off is PowerOffMode.HARD:
        return PowerOff()
    if not history.guest_asked:
        return ShutDownGuest()
    if desired.power_off is PowerOffMode.SOFT or history.patience:
        return AwaitGuestShutdown()
    return PowerOff()


def hardware_needed(desired: DesiredVm) -> int:
    """The oldest hardware version that will do; 0: any."""
    dynamic = any(not isinstance(request, VgpuRequest) for request in desired.requested.devices)
    return max(desired.hardware_version, DYNAMIC_HARDWARE if dynamic else 0)


def _unreserved(desired: DesiredVm, reservation: Reservation | None, history: History) -> bool:
    return bool(desired.requested.devices) and (
        reservation is None or reservation.host in history.excluded
    )


def _placed(desired: DesiredVm, history: History) -> bool:
    """Once a host would not take or start it, the next one is chosen by us."""
    return desired.placed or bool(history.excluded)
