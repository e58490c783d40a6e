"""Pods: the one word for their state is made from many fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers import durations
from kapilite.printers.parts import NONE, Cell, Object, get, items, number, text

if TYPE_CHECKING:
    from datetime import datetime


def _is_sidecar(pod: Object, name: str) -> bool:
    """A container of the start that goes on alongside the others."""
    return any(
        text(c, "name") == name and text(c, "restartPolicy") == "Always"
        for c in items(pod, "spec", "initContainers")
    )


def _sidecars(pod: Object) -> list[Object]:
    found = items(pod, "status", "initContainerStatuses")
    return [status for status in found if _is_sidecar(pod, text(status, "name"))]


def ready(pod: Object, _: datetime) -> str:
    """`1/2`: how many containers are ready of how many there are."""
    known = [*items(pod, "status", "containerStatuses"), *_sidecars(pod)]
    up = sum(get(c, "ready") is True and bool(_running(c)) for c in known)
    sidecars = sum(
        text(c, "restartPolicy") == "Always" for c in items(pod, "spec", "initContainers")
    )
    return f"{up}/{len(items(pod, 'spec', 'containers')) + sidecars}"


def _running(status: Object) -> bool:
    return get(status, "state", "running") is not None


def status(pod: Object, _: datetime) -> str:
    """The word for what a pod is doing, or what keeps it from it."""
    reason = text(pod, "status", "reason") or text(pod, "status", "phase")
    starting = _start(pod)
    found = starting if starting is not None else _containers(pod, reason)
    if get(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if text(pod, "status", "reason") == "NodeLost" else "Terminating"
    return found


def _start(pod: Object) -> str | None:
    """What the containers of the start are at, while they are."""
    everyone = items(pod, "status", "initContainerStatuses")
    for place, container in enumerate(everyone):
        ended, waiting = (get(container, "state", key) for key in ("terminated", "waiting"))
        if ended is not None:
            if number(ended, "exitCode") == 0:
                continue
            return f"Init:{text(ended, 'reason') or _exit(ended)}"
        sidecar = _is_sidecar(pod, text(container, "name"))
        if sidecar and get(container, "started") is True:
            continue
        why = text(waiting, "reason")
        if why and why != "PodInitializing":
            return f"Init:{why}"
        return f"Init:{place}/{len(items(pod, 'spec', 'initContainers'))}"
    return None


def _exit(ended: Object) -> str:
    signal = number(ended, "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{number(ended, 'exitCode')}"


def _containers(pod: Object, reason: str) -> str:
    running = False
    for container in reversed(items(pod, "status", "containerStatuses")):
        ended = get(container, "state", "terminated")
        if why := text(container, "state", "waiting", "reason"):
            reason = why
        elif ended is not None:
            reason = text(ended, "reason") or _exit(ended)
        elif get(container, "ready") is True and _running(container):
            running = True
    if reason == "Completed" and running:
        conditions = items(pod, "status", "conditions")
        up = any(get(c, "type") == "Ready" and get(c, "status") == "True" for c in conditions)
        return "Running" if up else "NotReady"
    return reason


def restarts(pod: Object, now: datetime) -> str:
    """How often containers were started again, and when last."""
    starting = _start(pod) is not None
    field = "initContainerStatuses" if starting else "containerStatuses"
    known = items(pod, "status", field) + ([] if starting else _sidecars(pod))
    total = sum(number(c, "restartCount") for c in known)
    ends = (durations.moment(get(c, "lastState", "terminated", "finishedAt")) for c in known)
    last = max((when for when in ends if when is not None), default=None)
    if not total or last is None:
        return str(total)
    return f"{total} ({durations.human_duration(now - last)} ago)"


def _ip(pod: Object, _: datetime) -> str:
    addresses = [text(a, "ip") for a in items(pod, "status", "podIPs")]
    return (addresses[0] if addresses else text(pod, "status", "podIP")) or NONE


def _gates(pod: Object, _: datetime) -> str:
    gates = {text(gate, "conditionType") for gate in items(pod, "spec", "readinessGates")}
    if not gates:
        return NONE
    holding = {
        text(c, "type") for c in items(pod, "status", "conditions") if get(c, "status") == "True"
    }
    return f"{len(gates & holding)}/{len(gates)}"


CELLS: dict[tuple[str, str], Cell] = {
    ("pods", "IP"): _ip,
    ("pods", "Node"): lambda pod, _: text(pod, "spec", "nodeName") or NONE,
    ("pods", "Nominated Node"): lambda pod, _: text(pod, "status", "nominatedNodeName") or NONE,
    ("pods", "Readiness Gates"): _gates,
    ("pods", "Ready"): ready,
    ("pods", "Restarts"): restarts,
    ("pods", "Status"): status,
}
