"""What the desired state for a VM means, and what its state is called."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.simcluster.kubevirt.objects import INSTANCES, VMS, Instance, Vm
from laneway.simcluster.kubevirt.strategy import Action, action, left, printable, strategy_of

DELETED = "2026-01-01T00:00:00Z"


def vm(deleted: bool = False, status: Any = None, **spec: Any) -> Vm:
    metadata = {"name": "vm", "deletionTimestamp": DELETED if deleted else None}
    body = {"metadata": metadata, "spec": spec, "status": status or {}}
    return VMS.decode(msgspec.json.encode(body))


def instance(phase: str, *, deleted: bool = False, unschedulable: bool = False) -> Instance:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    body = {
        "metadata": {"name": "vm", "deletionTimestamp": DELETED if deleted else None},
        "status": {"phase": phase, "conditions": [waits] if unschedulable else []},
    }
    return INSTANCES.decode(msgspec.json.encode(body))


def test_the_older_field_says_the_same() -> None:
    assert strategy_of(vm(running=True)) == "Always"
    assert strategy_of(vm(running=False)) == "Halted"
    assert strategy_of(vm(runStrategy="Manual")) == "Manual"
    assert strategy_of(vm()) == "Halted"


@pytest.mark.parametrize(
    ("strategy", "phase", "expected"),
    [
        ("Always", None, Action.START),
        ("Always", "Running", Action.NOTHING),
        ("Always", "Pending", Action.NOTHING),
        ("Always", "Succeeded", Action.STOP),
        ("Always", "Failed", Action.STOP),
        ("RerunOnFailure", None, Action.START),
        ("RerunOnFailure", "Succeeded", Action.NOTHING),
        ("RerunOnFailure", "Failed", Action.STOP),
        ("Manual", None, Action.NOTHING),
        ("Manual", "Running", Action.NOTHING),
        ("Manual", "Failed", Action.NOTHING),
        ("Halted", None, Action.NOTHING),
        ("Halted", "Scheduling", Action.STOP),
        ("Halted", "Running", Action.STOP),
    ],
)
def test_next_step(strategy: str, phase: str | None, expected: Action) -> None:
    found = None if phase is None else instance(phase)
    assert action(vm(runStrategy=strategy), found) is expected


def test_what_is_deleted_is_stopped_once_and_never_started() -> None:
    gone = vm(deleted=True, runStrategy="Always")
    assert action(gone, None) is Action.NOTHING
    assert action(gone, instance("Running")) is Action.STOP
    assert action(gone, instance("Running", deleted=True)) is Action.NOTHING
    assert printable(gone, None, crashing=False) == "Terminating"


def test_a_guest_that_shut_down_stays_off_although_its_instance_is_gone() -> None:
    off = {"runStrategy": "RerunOnFailure", "printableStatus": "Stopped"}
    assert action(vm(runStrategy="RerunOnFailure", status=off), None) is Action.NOTHING
    before = {"runStrategy": "Halted", "printableStatus": "Stopped"}
    assert action(vm(runStrategy="RerunOnFailure", status=before), None) is Action.START


@pytest.mark.parametrize(
    ("found", "crashing", "expected"),
    [
        (None, False, "Starting"),
        (None, True, "CrashLoopBackOff"),
        (instance(""), False, "Starting"),
        (instance("Scheduling", unschedulable=True), False, "ErrorUnschedulable"),
        (instance("Scheduled"), False, "Starting"),
        (instance("Running"), False, "Running"),
        (instance("Running", deleted=True), False, "Stopping"),
        (instance("Succeeded"), False, "Stopped"),
        (instance("Failed"), True, "CrashLoopBackOff"),
    ],
)
def test_the_state_in_a_word(found: Instance | None, crashing: bool, expected: str) -> None:
    assert printable(vm(running=True), found, crashing=crashing) == expected


def test_a_vm_that_is_not_to_run_is_stopped() -> None:
    assert printable(vm(running=False), None, crashing=False) == "Stopped"


STOP, START = {"action": "Stop", "uid": "u"}, {"action": "Start"}


@pytest.mark.parametrize(
    ("requests", "uid", "expected", "remaining"),
    [
        ([STOP], "u", Action.STOP, 1),
        ([STOP], "other", Action.NOTHING, 0),
        ([STOP], None, Action.NOTHING, 0),
        ([STOP, START], "u", Action.STOP, 2),
        ([STOP, START], None, Action.NOTHING, 1),
        ([START], None, Action.START, 1),
        ([START], "new", Action.NOTHING, 0),
    ],
)
@pytest.mark.parametrize("strategy", ["RerunOnFailure", "Manual"])
def test_requests_of_the_subresource_api(
    strategy: str, requests: list[Any], uid: str | None, expected: Action, remaining: int
) -> None:
    asked = vm(runStrategy=strategy, status={"stateChangeRequests": requests})
    found = None
    if uid is not None:
        body = {"metadata": {"name": "vm", "uid": uid}, "status": {"phase": "Running"}}
        found = INSTANCES.decode(msgspec.json.encode(body))
    assert action(asked, found) is expected
    assert len(left(asked, found)) == remaining


def test_a_start_that_is_requested_is_not_done_by_an_instance_that_ends() -> None:
    asked = vm(runStrategy="RerunOnFailure", status={"stateChangeRequests": [START]})
    for before in (instance("Failed"), instance("Running", deleted=True)):
        assert len(left(asked, before)) == 1
