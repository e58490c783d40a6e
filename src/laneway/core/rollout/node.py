"""What comes next for one node: from a boot that is staged to one that is verified.

A node is RebootPending until it may go, then Draining, Rebooting and Verifying. After that nothing
is left to do, or it is Failed.

Everything is decided from what is stored and seen now, so another manager goes on where one was
killed. A node whose reboot failed stays as it is, for people to look at, and its policy begins no
further reboot. It is ready again as soon as its agent says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from laneway.core.phrases import few
from laneway.core.rollout.terms import Terms, withheld

REBOOT_SECONDS = 1800.0
"""Servers with much memory take a quarter of an hour for their own tests."""
VERIFY_SECONDS = 900.0
"""From the first word of the agent after the boot to a node that is ready and verified."""


class Stage(StrEnum):
    """Where a node is. The first four are the agent's word, the others the manager's."""

    READY = "Ready"
    PLANNED = "Planned"
    STAGED = "Staged"
    FAILED = "Failed"
    REBOOT_PENDING = "RebootPending"
    DRAINING = "Draining"
    REBOOTING = "Rebooting"
    VERIFYING = "Verifying"
    IDLE = ""


AWAY = frozenset({Stage.DRAINING, Stage.REBOOTING, Stage.VERIFYING})
"""The manager takes, or has taken, the node from its users."""


class Vm(NamedTuple):
    """A VM that runs on the node."""

    name: str
    """`NAMESPACE/NAME`"""
    stays: str = ""
    """Why it cannot be migrated, `holds devices`; empty when it can."""


class Rollout(NamedTuple):
    """What is stored of the manager's work on a node."""

    stage: Stage = Stage.IDLE
    message: str = ""
    since: float = 0.0
    """Seconds since 1970."""
    boot: str = ""
    """The boot that the node is to leave."""
    cordoned: bool = False
    """By the manager."""
    stop_vms: bool = False
    """The agent need not look for VMs that hold devices."""


class Node(NamedTuple):
    """What is seen of a node now."""

    name: str
    ready: bool
    """Its kubelet says so."""
    cordoned: bool
    agent: Stage = Stage.IDLE
    """The agent's word on what is desired now; IDLE while it has not said anything."""
    agent_message: str = ""
    missing: tuple[str, ...] = ()
    """The names of what it does not have yet."""
    boot: str = ""
    """The boot that the agent is in; empty while it is not known."""
    refused: str = ""
    """Why the agent does not reboot the node."""
    approved: bool = False
    """An administrator has asked for this boot to end."""
    vms: tuple[Vm, ...] = ()
    pods: tuple[str, ...] = ()
    """Those that must go before the node does, `NAMESPACE/NAME`."""


class Next(NamedTuple):
    """What is to be stored, and how the node is to be then."""

    rollout: Rollout
    cordon: bool | None = None
    """Whether the node is to be cordoned; None: as it is."""
    drain: bool = False
    """Pods are to be evicted, and VMs migrated or stopped."""


def next_step(node: Node, rollout: Rollout, terms: Sequence[Terms], now: float) -> Next:
    """What to do now. `terms`: of all policies that select the node."""
    match rollout.stage:
        case Stage.DRAINING:
            return _draining(node, rollout, terms, now)
        case Stage.REBOOTING:
            return _rebooting(node, rollout, now)
        case Stage.VERIFYING:
            return _verifying(node, rollout, now)
        case Stage.FAILED:
            return _failed(node, rollout, terms, now)
        case _:
            return _pending(node, rollout, terms, now)


def _pending(node: Node, rollout: Rollout, terms: Sequence[Terms], now: float) -> Next:
    if node.agent is not Stage.STAGED or not node.boot:
        return _idle(rollout)
    if why := withheld(terms, node.name, approved=node.approved, staying=staying(node.vms)):
        return _stay(rollout, Stage.REBOOT_PENDING, why, now)
    begun = Rollout(
        Stage.DRAINING,
        "The node is cordoned, and its pods are evicted.",
        now,
        node.boot,
        cordoned=not node.cordoned,
    )
    return Next(begun, cordon=True)


def _draining(node: Node, rollout: Rollout, terms: Sequence[Terms], now: float) -> Next:
    if node.boot and node.boot != rollout.boot:
        return _enter(rollout, Stage.VERIFYING, "The node has booted.", now)
    if node.agent is not Stage.STAGED:
        return _idle(rollout)
    held, stop = staying(node.vms), all(one.stop_vms for one in terms)
    if why := withheld(terms, node.name, approved=node.approved, staying=()):
        pending = Rollout(Stage.REBOOT_PENDING, why, now)
        return Next(pending, cordon=False if rollout.cordoned else None)
    if held and not stop:
        why = f"VMs that cannot be migrated still run: {few(held)}. Stop them, or set stopVMs."
        return Next(rollout._replace(message=why), cordon=True, drain=True)
    vms = (vm.name if vm.stays else f"{vm.name} (migrates)" for vm in node.vms)
    if left := [*vms, *node.pods]:
        return Next(rollout._replace(message=f"Still there: {few(left)}."), cordon=True, drain=True)
    if not node.cordoned:  # or a pod could come at any moment
        return Next(rollout, cordon=True, drain=True)
    return _enter(
        rollout._replace(stop_vms=stop), Stage.REBOOTING, "The agent reboots the node.", now
    )


def _rebooting(node: Node, rollout: Rollout, now: float) -> Next:
    if node.boot and node.boot != rollout.boot:
        return _enter(rollout, Stage.VERIFYING, "The node has booted.", now)
    if node.refused:
        failed = Rollout(Stage.FAILED, node.refused, now, rollout.boot)
        return Next(failed, cordon=False if rollout.cordoned else None)
    if now - rollout.since > REBOOT_SECONDS:
        why = (
            f"The node did not come back within {REBOOT_SECONDS / 60:.0f} minutes. Look at its "
            "console."
        )
        return _enter(rollout, Stage.FAILED, why, now)
    return Next(rollout, cordon=True)


def _verifying(node: Node, rollout: Rollout, now: float) -> Next:
    if node.agent is Stage.READY and node.ready:
        return _idle(rollout)
    if node.agent in (Stage.FAILED, Stage.STAGED):
        return _enter(rollout, Stage.FAILED, _wrong(node), now)
    if now - rollout.since > VERIFY_SECONDS:
        why = (
            f"The node booted, but was not ready within {VERIFY_SECONDS / 60:.0f} minutes. Look at "
            "its kubelet and its agent."
        )
        return _enter(rollout, Stage.FAILED, why, now)
    return Next(rollout)


def _wrong(node: Node) -> str:
    """What is wrong with a node that has booted."""
    if node.agent is Stage.FAILED:
        return node.agent_message
    missing = f": {few(node.missing)}" if node.missing else ""
    return f"The node booted, and still does not have what its policies request{missing}."


def _failed(node: Node, rollout: Rollout, terms: Sequence[Terms], now: float) -> Next:
    if node.agent is Stage.READY and node.ready:
        return _idle(rollout)
    if node.approved and node.agent is Stage.STAGED and not node.refused:
        return _pending(node, rollout, terms, now)
    return Next(rollout)


def _idle(rollout: Rollout) -> Next:
    return Next(Rollout(), cordon=False if rollout.cordoned else None)


def _enter(rollout: Rollout, stage: Stage, message: str, now: float) -> Next:
    return Next(rollout._replace(stage=stage, message=message, since=now))


def _stay(rollout: Rollout, stage: Stage, message: str, now: float) -> Next:
    since = rollout.since if rollout.stage is stage else now
    return Next(Rollout(stage, message, since))


def staying(vms: Sequence[Vm]) -> tuple[str, ...]:
    """The VMs that cannot be migrated, each with the reason."""
    return tuple(f"{vm.name} ({vm.stays})" for vm in vms if vm.stays)


def is_away(node: Node, stage: Stage) -> bool:
    """Whether a node counts against the number of nodes that may be away."""
    return stage in AWAY or not node.ready or node.cordoned


def shown(agent: Stage, rollout: Rollout) -> Stage:
    """The one stage that people are told."""
    return rollout.stage or agent
