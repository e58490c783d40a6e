"""What to do next for one machine, decided from what is wished and what vCenter shows.

Nothing is remembered between two decisions but what cannot be seen: so whoever is killed, at any
moment, goes on from what there is. Three rules keep that safe:

- Nothing is ordered while a task is at work on the VM, or on its way to become one. A clone whose
  answer was lost is waited for (`Linger`) before another is ordered or the machine is given up.
- Devices are promised before anything is ordered, and let go only once there is no VM.
- What is to be attached or taken away is the difference between what is asked for and what the VM
  has, and it is on only when there is none. Devices of its template that it does not ask for go;
  a machine that asks for none keeps what its template has, as it always did.

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


class PowerOff(StrEnum):
    """How a machine is switched off that is to be deleted; CAPV's words."""

    HARD = "hard"
    SOFT = "soft"
    """The guest is asked, and waited for as long as it takes."""
    TRY_SOFT = "trySoft"
    """The guest is asked, and switched off when it takes too long."""


class Wish(msgspec.Struct, frozen=True):
    """What a machine is to be."""

    requested: Requested = Requested()
    parts: Mapping[str, int] = NO_PARTS
    """Of how many devices the groups are that it asks for, by name."""
    hardware_version: int = 0
    """At least this one; 0: whatever the template has."""
    group: str = ""
    """VM group that it must be in before it is switched on; empty: none."""
    introduced: bool = False
    """Its guest can only be told its network cards when these have got their addresses."""
    placed: bool = False
    """It is to be on the promised host itself: nobody else places it."""
    power_off: PowerOff = PowerOff.HARD
    deleted: bool = False


class Past(msgspec.Struct, frozen=True):
    """What was done before and cannot be seen in the VM."""

    made: bool = False
    """There was a VM."""
    ordered: bool = False
    """A clone may have been ordered of which no task is known."""
    lingered: bool = False
    """Such a clone has been waited for."""
    one_by_one: bool = False
    """Several devices in one request were refused: one task for each."""
    introduced: bool = False
    """Its guest has been told its network cards."""
    joined: bool = False
    """It is in its VM group."""
    struck: Collection[str] = frozenset()
    """Hosts that would not take or start it."""
    given_up: bool = False
    """vCenter has been asked to give up the task."""
    asked_guest: bool = False
    """The guest has been asked to shut down."""
    patience: bool = True
    """The guest may still take its time."""


class Wait(msgspec.Struct, frozen=True, tag=True):
    """A task is at work."""

    task: str


class GiveUp(msgspec.Struct, frozen=True, tag=True):
    """Ask vCenter to give up a task that nobody needs any more."""

    task: str


class Linger(msgspec.Struct, frozen=True, tag=True):
    """Wait for the end of a clone that may be under way without our knowing its task."""


class Reserve(msgspec.Struct, frozen=True, tag=True):
    """Have the devices promised, on none of the hosts that would not take or start the machine."""


class MakeClone(msgspec.Struct, frozen=True, tag=True):
    """Make the VM, off."""

    host: str
    """Empty: vCenter places it when it is started."""


class Move(msgspec.Struct, frozen=True, tag=True):
    """Register the VM, which is off, on another host."""

    host: str


class Upgrade(msgspec.Struct, frozen=True, tag=True):
    """Give the VM newer hardware."""

    version: int


class Configure(msgspec.Struct, frozen=True, tag=True):
    """Bring the devices of the VM nearer to what is asked for, in one request."""

    add: tuple[DeviceRequest, ...] = ()
    remove: tuple[Attached, ...] = ()


class Introduce(msgspec.Struct, frozen=True, tag=True):
    """Have the guest told its network cards, which have their addresses only now."""


class Join(msgspec.Struct, frozen=True, tag=True):
    """Make the VM member of its VM group, which counts only before it is switched on."""


class SwitchOn(msgspec.Struct, frozen=True, tag=True):
    """Start it."""


class AwaitAddresses(msgspec.Struct, frozen=True, tag=True):
    """It is on; its guest has not told an address."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """It is what it is to be."""


class Lost(msgspec.Struct, frozen=True, tag=True):
    """It is on without devices that it should have."""

    missing: tuple[DeviceRequest, ...]


class Vanished(msgspec.Struct, frozen=True, tag=True):
    """Somebody has deleted the VM."""


class AskGuest(msgspec.Struct, frozen=True, tag=True):
    """Ask the guest to shut down."""


class AwaitGuest(msgspec.Struct, frozen=True, tag=True):
    """The guest is shutting down."""


class SwitchOff(msgspec.Struct, frozen=True, tag=True):
    """Stop it, whatever it does."""


class Destroy(msgspec.Struct, frozen=True, tag=True):
    """Delete the VM with its disks."""


class Release(msgspec.Struct, frozen=True, tag=True):
    """There is no VM: its devices are free."""


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """Nothing is left of it."""


Step: TypeAlias = (
    Wait
    | GiveUp
    | Linger
    | Reserve
    | MakeClone
    | Move
    | Upgrade
    | Configure
    | Introduce
    | Join
    | SwitchOn
    | AwaitAddresses
    | Ready
    | Lost
    | Vanished
    | AskGuest
    | AwaitGuest
    | SwitchOff
    | Destroy
    | Release
    | LetGo
)


def next_step(
    wish: Wish,
    vm: VmState | None,
    reservation: Reservation | None,
    task: tuple[str, TaskState] | None,
    past: Past,
) -> Step:
    """The one thing to do now. `task` is the last one ordered, as far as it is known."""
    if (waiting := _at_work(vm, task)) is not None:
        abandoned = wish.deleted and vm is None and not past.given_up
        return GiveUp(waiting) if abandoned else Wait(waiting)
    if wish.deleted:
        return _deletion(wish, vm, reservation, past)
    if vm is None:
        return _creation(wish, reservation, past)
    if vm.on:
        if missing := match(wish.requested, vm.devices, wish.parts).missing:
            return Lost(missing)
        return Ready() if vm.addresses else AwaitAddresses()
    return _preparation(wish, vm, reservation, past)


def _at_work(vm: VmState | None, task: tuple[str, TaskState] | None) -> str | None:
    if task is not None and not task[1].done:
        return task[0]
    return vm.tasks[0] if vm is not None and vm.tasks else None


def _creation(wish: Wish, reservation: Reservation | None, past: Past) -> Step:
    if past.made:
        return Vanished() if reservation is None else Release()
    if past.ordered and not past.lingered:
        return Linger()
    if _unpromised(wish, reservation, past):
        return Reserve()
    return MakeClone(reservation.host if reservation is not None and _placed(wish, past) else "")


def _preparation(wish: Wish, vm: VmState, reservation: Reservation | None, past: Past) -> Step:
    if _unpromised(wish, reservation, past):
        return Reserve()
    if reservation is not None and _placed(wish, past) and vm.host != reservation.host:
        return Move(reservation.host)
    if vm.hardware_version < (version := hardware_needed(wish)):
        return Upgrade(version)
    missing, surplus = _difference(wish, vm)
    if missing or surplus or (vm.devices and not vm.memory_locked):
        return _change(missing, surplus, one_by_one=past.one_by_one)
    if wish.introduced and not past.introduced:
        return Introduce()
    if wish.group and not past.joined:
        return Join()
    return SwitchOn()


def _difference(wish: Wish, vm: VmState) -> tuple[tuple[DeviceRequest, ...], tuple[Attached, ...]]:
    """What a VM lacks, and what it has beside that is to go."""
    found = match(wish.requested, vm.devices, wish.parts)
    return found.missing, found.surplus if wish.requested.devices else ()


def _change(
    missing: tuple[DeviceRequest, ...], surplus: tuple[Attached, ...], *, one_by_one: bool
) -> Configure:
    if not one_by_one:
        return Configure(missing, surplus)
    if surplus:
        return Configure(remove=surplus)
    return Configure(missing[:1])


def _deletion(wish: Wish, vm: VmState | None, reservation: Reservation | None, past: Past) -> Step:
    if vm is None:
        if past.ordered and not past.made and not past.lingered:
            return Linger()
        return LetGo() if reservation is None else Release()
    if not vm.on:
        return Destroy()
    if wish.power_off is PowerOff.HARD:
        return SwitchOff()
    if not past.asked_guest:
        return AskGuest()
    if wish.power_off is PowerOff.SOFT or past.patience:
        return AwaitGuest()
    return SwitchOff()


def hardware_needed(wish: Wish) -> int:
    """The oldest hardware version that will do; 0: any."""
    dynamic = any(not isinstance(request, VgpuRequest) for request in wish.requested.devices)
    return max(wish.hardware_version, DYNAMIC_HARDWARE if dynamic else 0)


def _unpromised(wish: Wish, reservation: Reservation | None, past: Past) -> bool:
    return bool(wish.requested.devices) and (reservation is None or reservation.host in past.struck)


def _placed(wish: Wish, past: Past) -> bool:
    """Once a host would not take or start it, the next one is chosen by us."""
    return wish.placed or bool(past.struck)
