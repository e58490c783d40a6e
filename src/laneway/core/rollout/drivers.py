"""Which driver pod is replaced next, when the driver toolkit is to install another driver.

One node at a time, and none while another is under way: what one node finds wrong with a driver,
no second one has to find. Whether a node is done is judged by its pod and by what its agent says of
the driver, because a pod is ready as well with the former driver, to which it has gone back.

All is decided from what is seen now. A pod that is missing counts as under way, so a manager that
is killed after its deletion leaves nothing behind that its successor takes for done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.phrases import few

SETTLE_SECONDS = 60.0
"""Until then, what the agent says of the driver may be about the pod before."""
LATE_SECONDS = 2700.0
"""A package of a gigabyte over a slow line, and its modules built on a slow node."""


class DriverPod(NamedTuple):
    """The driver pod of a node."""

    node: str
    name: str
    current: bool
    """Made from what the DaemonSet is now."""
    ready: bool
    going: bool = False
    """Being deleted."""
    age: float = 0.0
    """Seconds since it was made."""
    unchanged: float = 0.0
    """Seconds since it became ready, or ceased to be."""
    failed: str = ""
    """What the agent says is wrong with the driver of the node: reason and message."""
    held: str = ""
    """Why the driver of the node stays: what needs it."""


class Next(NamedTuple):
    """What is done now, and why nothing else is."""

    replace: DriverPod | None = None
    busy: str = ""
    """What is waited for, before the next node."""
    stopped: str = ""
    """Why no further node begins, until a person has changed something."""
    node: str = ""
    """Where that is."""
    waits: str = ""
    """Which nodes cannot begin, and why."""


def next_pod(pods: Sequence[DriverPod], expected: int) -> Next:
    """`expected`: how many there should be, by the DaemonSet's own count."""
    outdated = [one for one in pods if not one.current and not one.going]
    if not outdated and not any(one.going for one in pods):
        return _watch(pods)
    if going := [one for one in pods if one.going]:
        return Next(busy=f"Pod {going[0].name} of node {going[0].node} ends.", node=going[0].node)
    if len(pods) < expected:
        return Next(busy=f"{expected - len(pods)} of {expected} driver pods are to be made.")
    if (watched := _watch(pods)).busy or watched.stopped:
        return watched
    free = [one for one in outdated if not one.held]
    held = sorted(f"{one.node} ({one.held})" for one in outdated if one.held)
    waits = f"The driver stays on these nodes for now: {few(held)}." if held else ""
    # One that does not work anyway has nothing to lose.
    chosen = min(free, key=lambda one: (one.ready and not one.failed, one.node), default=None)
    return Next(chosen, waits=waits, node=chosen.node if chosen else "")


def _watch(pods: Sequence[DriverPod]) -> Next:
    """How far the pods are that were replaced: first what stops everything."""
    current = sorted(one for one in pods if one.current and not one.going)
    for one in current:
        if why := _failed(one):
            return Next(stopped=f"Node {one.node}: {why}", node=one.node)
    for one in current:
        if not one.ready or one.unchanged < SETTLE_SECONDS:
            text = f"Node {one.node}: pod {one.name} brings the driver into service."
            return Next(busy=text, node=one.node)
    return Next()


def _failed(pod: DriverPod) -> str:
    if pod.age < SETTLE_SECONDS:
        return ""
    if pod.failed:
        return pod.failed
    if not pod.ready and pod.unchanged >= LATE_SECONDS:
        return f"pod {pod.name} is not ready after {LATE_SECONDS / 60:.0f} minutes."
    return ""
