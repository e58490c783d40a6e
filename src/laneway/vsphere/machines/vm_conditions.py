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
_LOST_ANSWER = "vCenter may be cloning the template; it did not confirm the request"
_DETACHED_WORDS = "PCI devices removed after VM was powered on"


class Outcome(NamedTuple):
    """All that the facts follow from."""

    step: Step | None
    """What was decided; None: nothing could be looked at."""
    devices_status: DevicesStatus | None = None
    """Of the devices, if any are requested."""
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
    found = [_vcenter(it), _provisioned(it)]
    if it.problems:
        found.append(Fact(words.DEVICES, False, INVALID, problem_words(it.problems)))
    elif it.devices_status is not None and not it.deleted:
        found.append(_devices(it.devices_status, it.refused))
    if isinstance(it.step, DevicesLost):
        found.append(Fact(words.DETACHED, False, "NotFound", _DETACHED_WORDS))
    if it.deleted and it.power_off is not PowerOffMode.HARD and (guest := _guest(it)) is not None:
        found.append(guest)
    return words.with_summary(found)


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
            what = _GOING_ON.get(going_on, "A vCenter task for the VM is running")
            return reason.get(going_on, words.NOT_PROVISIONED), f"{what} ({task})"
        case CloneTemplate():
            return words.CLONING, _GOING_ON[CloneTemplate.__name__]
        case PowerOn():
            return words.POWERING_ON, _GOING_ON[PowerOn.__name__]
        case AwaitAddresses():
            return words.WAITING_FOR_ADDRESS, "The guest reports no IP address yet"
        case VmDeleted():
            return words.NOT_FOUND, "The VM was deleted in vCenter; delete the Machine"
        case Reserve():
            return words.NOT_PROVISIONED, "The VM waits for its devices; see PCIDevicesReady"
        case _:
            return words.NOT_PROVISIONED, _GOING_ON.get(type(step).__name__, "")


_GOING_ON = {
    CloneTemplate.__name__: "vCenter clones the template",
    Relocate.__name__: "vCenter moves the VM to the host with its devices",
    Upgrade.__name__: "vCenter upgrades the hardware version of the VM",
    Reconfigure.__name__: "vCenter attaches the devices of the VM",
    SetGuestMetadata.__name__: "vCenter writes the network configuration for the guest",
    JoinVmGroup.__name__: "vCenter adds the VM to its VM group",
    PowerOn.__name__: "vCenter powers on the VM",
    ShutDownGuest.__name__: "vCenter asks the guest to shut down",
    AwaitGuestShutdown.__name__: "The guest is shutting down",
    PowerOff.__name__: "vCenter powers off the VM",
    Destroy.__name__: "vCenter deletes the VM",
    ReleaseReservation.__name__: "The VM no longer exists",
    RemoveFinalizer.__name__: "The VM no longer exists",
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
