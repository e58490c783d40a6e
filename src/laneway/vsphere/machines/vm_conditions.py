"""What the object of a VM says after a decision: facts, and the words for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.vsphere.inventory.vms import Fault
from laneway.core.vsphere.provisioning.steps import (
    AwaitAddresses,
    AwaitGuestShutdown,
    AwaitTask,
    CancelTask,
    CloneTemplate,
    Destroy,
    DevicesLost,
    JoinVmGroup,
    PowerOff,
    PowerOffMode,
    PowerOn,
    Ready,
    Reconfigure,
    ReleaseReservation,
    Relocate,
    RemoveFinalizer,
    Reserve,
    SetGuestMetadata,
    ShutDownGuest,
    Step,
    Upgrade,
    VmDeleted,
)
from laneway.core.vsphere.spec.parsing import Problem
from laneway.vsphere.fleet.device_status import DevicesStatus, fault_words
from laneway.vsphere.machines import conditions as words
from laneway.vsphere.machines.conditions import Fact
from laneway.vsphere.machines.faults import reason_of
from laneway.vsphere.machines.rejection import Rejection

INVALID = "InvalidPCIDevices"
_LOST_ANSWER = "The template is being cloned, if vCenter has taken the order"
_DETACHED_WORDS = "PCI devices removed after VM was powered on"


class Outcome(NamedTuple):
    """All that the facts follow from."""

    step: Step | None
    """What was decided; None: nothing could be looked at."""
    devices_status: DevicesStatus | None = None
    """Of the devices, if any are asked for."""
    problems: Sequence[Problem] = ()
    rejection: Rejection | None = None
    """Why no VM is made of what is written."""
    fault: Fault | None = None
    """Why what was decided is not done now."""
    unreachable: str = ""
    """Why vCenter cannot be asked."""
    refused: tuple[str, str] | None = None
    """Why it cannot have its devices though they are attached: the reason, and the words."""
    deleted: bool = False
    power_off: PowerOffMode = PowerOffMode.HARD
    going_on: str = ""
    """What the task at work is for."""
    cloning: bool = False
    """A clone may be under way of which no task is known, which must not be forgotten."""


def facts(it: Outcome) -> list[Fact]:
    """Everything that there is to say."""
    told = [_vcenter(it), _provisioned(it)]
    if it.problems:
        told.append(Fact(words.DEVICES, False, INVALID, problem_words(it.problems)))
    elif it.devices_status is not None and not it.deleted:
        told.append(_devices(it.devices_status, it.refused))
    if isinstance(it.step, DevicesLost):
        told.append(Fact(words.DETACHED, False, "NotFound", _DETACHED_WORDS))
    if it.deleted and it.power_off is not PowerOffMode.HARD and (guest := _guest(it)) is not None:
        told.append(guest)
    return words.with_summary(told)


def problem_words(problems: Sequence[Problem]) -> str:
    return "; ".join(f"spec.{one.path}: {one.value!r}: {one.message}" for one in problems)


def _vcenter(it: Outcome) -> Fact:
    if it.unreachable:
        return Fact(words.VCENTER, False, words.UNREACHABLE, it.unreachable)
    return Fact(words.VCENTER, True, "Available")


def _devices(devices_status: DevicesStatus, refused: tuple[str, str] | None) -> Fact:
    if devices_status.ready and refused is not None:
        return Fact(words.DEVICES, False, *refused)
    reason = reason_of(Fault(devices_status.reason, ""))
    return Fact(words.DEVICES, devices_status.ready, reason, devices_status.message)


def _provisioned(it: Outcome) -> Fact:
    if it.rejection is not None:
        return Fact(words.PROVISIONED, False, *it.rejection)
    if it.cloning:
        said = fault_words(it.fault) if it.fault is not None else _LOST_ANSWER
        return Fact(words.PROVISIONED, False, words.CLONING, said)
    if isinstance(it.step, Ready | DevicesLost):
        return Fact(words.PROVISIONED, True, words.DONE)
    if it.fault is not None:
        reason = words.DELETING if it.deleted else reason_of(it.fault)
        return Fact(words.PROVISIONED, False, reason, fault_words(it.fault))
    if it.step is None:
        reason = words.DELETING if it.deleted else words.NOT_PROVISIONED
        return Fact(words.PROVISIONED, False, reason, it.unreachable)
    reason, message = _step_words(it.step, it.going_on)
    return Fact(words.PROVISIONED, False, words.DELETING if it.deleted else reason, message)


def _step_words(step: Step, going_on: str) -> tuple[str, str]:
    match step:
        case AwaitTask(task) | CancelTask(task):
            reason = {CloneTemplate.__name__: words.CLONING, PowerOn.__name__: words.POWERING_ON}
            what = _GOING_ON.get(going_on, "vCenter is at work on the VM")
            return reason.get(going_on, words.NOT_PROVISIONED), f"{what} ({task})"
        case CloneTemplate():
            return words.CLONING, _GOING_ON[CloneTemplate.__name__]
        case PowerOn():
            return words.POWERING_ON, _GOING_ON[PowerOn.__name__]
        case AwaitAddresses():
            return words.WAITING_FOR_ADDRESS, "The guest has told no address yet"
        case VmDeleted():
            return words.NOT_FOUND, "The VM was deleted in vCenter; delete its Machine"
        case Reserve():
            return words.NOT_PROVISIONED, "Waiting until its devices can be promised"
        case _:
            return words.NOT_PROVISIONED, _GOING_ON.get(type(step).__name__, "")


_GOING_ON = {
    CloneTemplate.__name__: "The template is being cloned",
    Relocate.__name__: "The VM is being moved to the host that has its devices",
    Upgrade.__name__: "The hardware of the VM is being upgraded",
    Reconfigure.__name__: "The devices of the VM are being attached",
    SetGuestMetadata.__name__: "The guest is told its network cards",
    JoinVmGroup.__name__: "The VM is being put into its VM group",
    PowerOn.__name__: "The VM is being powered on",
    ShutDownGuest.__name__: "The guest is asked to shut down",
    AwaitGuestShutdown.__name__: "The guest is shutting down",
    PowerOff.__name__: "The VM is being powered off",
    Destroy.__name__: "The VM is being deleted",
    ReleaseReservation.__name__: "There is no VM any more",
    RemoveFinalizer.__name__: "There is no VM any more",
}


def _guest(it: Outcome) -> Fact | None:
    match it.step:
        case ShutDownGuest() | AwaitGuestShutdown():
            return Fact(words.GUEST_OFF, False, words.IN_PROGRESS, "The guest is shutting down")
        case PowerOff():
            return Fact(words.GUEST_OFF, False, "Failed", "The guest did not shut down in time")
        case Destroy():
            return Fact(words.GUEST_OFF, True, "Succeeded")
        case _:
            return None
