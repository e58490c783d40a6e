"""What is seen of a node and of its policies when its next step is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import NamedTuple

from laneway.api import (
    CoreNode,
    HostPolicy,
    HostPreparation,
    HostRebootWindow,
    HostRolloutState,
    find_condition,
    timestamp,
)
from laneway.controllers.preparation.settings import digest
from laneway.controllers.rollout.asked import selected, zone_of
from laneway.core import keys
from laneway.core.rollout.node import AWAY, Node, Rollout, Stage, Vm, is_away
from laneway.core.rollout.terms import Terms, budget
from laneway.core.rollout.windows import Window, words
from laneway.kube.kubevirt import VirtualMachineInstance
from laneway.kube.resource import key_of

FINAL = frozenset({"Succeeded", "Failed"})
"""Phases of a VM that runs no more."""


def node_of(
    node: CoreNode, preparation: HostPreparation, vms: Sequence[Vm], pods: Sequence[str] = ()
) -> Node:
    """A node as it is now."""
    status = preparation.status
    ready = find_condition(node.status.conditions, "Ready")
    current = status.settings == digest(preparation.spec)
    allowed = preparation.metadata.annotations.get(keys.ANNOTATION_REBOOT, "")
    return Node(
        name=node.metadata.name,
        ready=ready is not None and ready.status == "True",
        cordoned=node.spec.unschedulable,
        agent=_stage(status.stage) if current else Stage.IDLE,
        agent_message=status.message if current else "",
        missing=tuple(one.name for one in status.requirements if one.state != "Met"),
        boot=status.boot_id,
        refused=status.reboot_refused,
        approved=bool(allowed) and allowed == status.boot_id,
        vms=tuple(vms),
        pods=tuple(pods),
    )


def vms_of(instances: Iterable[VirtualMachineInstance]) -> list[Vm]:
    """The VMs that run, by name."""
    found = [
        Vm(str(key_of(one)), _stays(one)) for one in instances if one.status.phase not in FINAL
    ]
    return sorted(found)


def _stays(instance: VirtualMachineInstance) -> str:
    if instance.spec.domain.devices.all:
        return "holds devices"
    condition = find_condition(instance.status.conditions, "LiveMigratable")
    if condition is not None and condition.status == "False":
        return condition.reason or "not migratable"
    return ""


def rollout_of(state: HostRolloutState) -> Rollout:
    """Where the manager is, as it is stored."""
    try:
        since = datetime.fromisoformat(state.since).timestamp() if state.since else 0.0
    except ValueError:
        since = 0.0
    return Rollout(
        _stage(state.stage),
        state.message,
        since,
        state.boot_id,
        cordoned=state.cordoned,
        stop_vms=state.stop_vms,
    )


def stored(rollout: Rollout) -> HostRolloutState:
    """The same as it is written."""
    return HostRolloutState(
        stage=rollout.stage.value,
        message=rollout.message,
        since=timestamp(datetime.fromtimestamp(rollout.since, UTC)) if rollout.since else "",
        boot_id=rollout.boot,
        cordoned=rollout.cordoned,
        stop_vms=rollout.stop_vms,
    )


class Standing(NamedTuple):
    """How the nodes of a policy are, taken together."""

    nodes: int
    """How many there are."""
    away: frozenset[str]
    """Those that count against the number of nodes that may be away."""
    outside: frozenset[str]
    """Those of them that no roll-out took away."""
    failed: frozenset[str]


def standing_of(
    policy: HostPolicy, nodes: Iterable[CoreNode], preparations: Mapping[str, HostPreparation]
) -> Standing:
    """How the nodes of a policy are."""
    mine = selected(policy, nodes)
    away, outside, failed = set(), set(), set()
    for node in mine:
        name = node.metadata.name
        preparation = preparations.get(name, HostPreparation())
        stage = _stage(preparation.spec.rollout.stage)
        if is_away(node_of(node, preparation, ()), stage):
            away.add(name)
            if stage not in AWAY:
                outside.add(name)
        if stage is Stage.FAILED:
            failed.add(name)
    return Standing(len(mine), frozenset(away), frozenset(outside), frozenset(failed))


def terms_of(policy: HostPolicy, node: str, standing: Standing, now: float) -> Terms:
    """What a policy says about one of its nodes."""
    rollout = policy.spec.rollout
    try:
        allowed = budget(rollout.max_unavailable, standing.nodes)
    except ValueError:
        allowed = 0
    windows = rollout.reboot.windows
    return Terms(
        policy=policy.metadata.name,
        when=rollout.reboot.when or "Never",
        paused=rollout.paused,
        stop_vms=rollout.stop_vms,
        open_now=any(_is_open(window, now) for window in windows),
        windows=words(_window(window) for window in windows),
        budget=allowed,
        away=len(standing.away - {node}),
        outside=tuple(sorted(standing.outside - {node})),
        failed=min(standing.failed - {node}, default=""),
    )


def _is_open(window: HostRebootWindow, now: float) -> bool:
    zone = zone_of(window)
    local = datetime.fromtimestamp(now, zone) if zone is not None else None
    return local is not None and _window(window).is_open(local)


def _window(window: HostRebootWindow) -> Window:
    try:
        start = time.fromisoformat(window.start)
    except ValueError:
        return Window((), time(), 0)
    return Window(tuple(window.days), start, window.minutes, window.time_zone)


def _stage(text: str) -> Stage:
    try:
        return Stage(text)
    except ValueError:
        return Stage.IDLE
