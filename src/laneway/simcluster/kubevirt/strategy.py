"""What a VirtualMachine's spec means for its instance, and what KubeVirt calls the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from laneway.api import find_condition
from laneway.simcluster.kubevirt.objects import FINAL, ChangeRequest, Instance, Vm


class Strategy:
    """KubeVirt's names of those that decide about a start; with Manual it is not started here."""

    ALWAYS = "Always"
    RERUN = "RerunOnFailure"
    HALTED = "Halted"
    MANUAL = "Manual"


START_REQUEST, STOP_REQUEST = "Start", "Stop"
_BY_REQUEST = (Strategy.RERUN, Strategy.MANUAL)


class Action(Enum):
    """What is to be done about the instance."""

    NOTHING = auto()
    START = auto()
    STOP = auto()


def strategy_of(vm: Vm) -> str:
    """The desired state in one word: `running` is the older way to say Always or Halted."""
    if vm.spec.running is not None:
        return Strategy.ALWAYS if vm.spec.running else Strategy.HALTED
    return vm.spec.run_strategy or Strategy.HALTED


def action(vm: Vm, instance: Instance | None) -> Action:
    """The next step; whether to wait with a start is for the caller to say."""
    desired = strategy_of(vm)
    request = next(iter(vm.status.state_change_requests), ChangeRequest())
    if instance is None:
        start = (
            desired == Strategy.ALWAYS
            or (desired in _BY_REQUEST and request.action == START_REQUEST)
            or (desired == Strategy.RERUN and not request.action and not _ended_well(vm))
        )
        return Action.START if start and not vm.metadata.deletion_timestamp else Action.NOTHING
    if instance.metadata.deletion_timestamp:
        return Action.NOTHING
    phase = instance.status.phase
    again = (desired == Strategy.ALWAYS and phase in FINAL) or (
        desired == Strategy.RERUN and phase == "Failed"
    )
    requested = request.action == STOP_REQUEST and request.uid == instance.metadata.uid
    stop = vm.metadata.deletion_timestamp or desired == Strategy.HALTED or again or requested
    return Action.STOP if stop else Action.NOTHING


def left(vm: Vm, instance: Instance | None) -> Sequence[ChangeRequest]:
    """The requests for a change of state that are not done yet."""
    requests = vm.status.state_change_requests
    if not requests:
        return ()
    first = requests[0]
    if first.action == START_REQUEST:
        done = (
            instance is not None
            and not instance.metadata.deletion_timestamp
            and instance.status.phase not in FINAL
        )
    else:
        done = instance is None or instance.metadata.uid != first.uid
    return requests[1:] if done else requests


def printable(vm: Vm, instance: Instance | None, *, crashing: bool) -> str:
    """The status in a word, for people."""
    if vm.metadata.deletion_timestamp:
        return "Terminating"
    if instance is None:
        wanted = action(vm, None) is Action.START
        return ("CrashLoopBackOff" if crashing else "Starting") if wanted else "Stopped"
    if instance.status.phase == "Succeeded":
        return "Stopped"
    if instance.metadata.deletion_timestamp:
        return "Stopping"
    scheduled = find_condition(instance.status.conditions, "PodScheduled")
    if instance.status.phase == "Running":
        return "Migrating" if is_migrating(instance) else "Running"
    if instance.status.phase in FINAL:
        return "CrashLoopBackOff" if crashing else "Stopped"
    if scheduled is not None and scheduled.reason == "Unschedulable":
        return "ErrorUnschedulable"
    return "Starting"


def is_migrating(instance: Instance) -> bool:
    """Whether its memory is on its way to another node."""
    state = instance.status.migration_state
    return state is not None and bool(state.start_timestamp) and not state.end_timestamp


def _ended_well(vm: Vm) -> bool:
    """Whether the last instance is gone because its guest had shut down: it stays off."""
    status = vm.status
    return status.run_strategy == Strategy.RERUN and status.printable_status == "Stopped"
