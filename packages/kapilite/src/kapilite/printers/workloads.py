"""The kinds that make pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers import durations
from kapilite.printers.parts import (
    Cell,
    Object,
    get,
    items,
    labels,
    mapping,
    number,
    of,
    selector,
    text,
)

if TYPE_CHECKING:
    from datetime import datetime

_DEPLOYMENTS = "deployments.apps"
_REPLICA_SETS = "replicasets.apps"
_STATEFUL_SETS = "statefulsets.apps"
_DAEMON_SETS = "daemonsets.apps"
_JOBS = "jobs.batch"


def ready(obj: Object, _: datetime) -> str:
    """`2/3`: how many are ready of how many are wanted."""
    return f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"


def _containers(field: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        found = items(obj, "spec", "template", "spec", "containers")
        return ",".join(text(container, field) for container in found)

    return cell


def _completions(job: Object, _: datetime) -> str:
    done, wanted = number(job, "status", "succeeded"), get(job, "spec", "completions")
    if isinstance(wanted, int):
        return f"{done}/{wanted}"
    side = number(job, "spec", "parallelism")
    return f"{done}/1 of {side}" if side > 1 else f"{done}/1"


def _job_status(job: Object, _: datetime) -> str:
    holding = {
        text(c, "type") for c in items(job, "status", "conditions") if get(c, "status") == "True"
    }
    if "Complete" in holding:
        return "Complete"
    if "Failed" in holding:
        return "Failed"
    if get(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if word in holding:
            return word
    return "Running"


def _duration(job: Object, now: datetime) -> str:
    began = durations.moment(get(job, "status", "startTime"))
    ended = durations.moment(get(job, "status", "completionTime"))
    return durations.human_duration((ended or now) - began) if began else ""


CELLS: dict[tuple[str, str], Cell] = {
    (_DAEMON_SETS, "Available"): of("status", "numberAvailable"),
    (_DAEMON_SETS, "Current"): of("status", "currentNumberScheduled"),
    (_DAEMON_SETS, "Desired"): of("status", "desiredNumberScheduled"),
    (_DAEMON_SETS, "Node Selector"): lambda obj, _: labels(
        mapping(obj, "spec", "template", "spec", "nodeSelector")
    ),
    (_DAEMON_SETS, "Ready"): of("status", "numberReady"),
    (_DAEMON_SETS, "Up-to-date"): of("status", "updatedNumberScheduled"),
    (_DEPLOYMENTS, "Available"): of("status", "availableReplicas"),
    (_DEPLOYMENTS, "Ready"): ready,
    (_DEPLOYMENTS, "Up-to-date"): of("status", "updatedReplicas"),
    (_JOBS, "Completions"): _completions,
    (_JOBS, "Duration"): _duration,
    (_JOBS, "Status"): _job_status,
    (_REPLICA_SETS, "Current"): of("status", "replicas"),
    (_REPLICA_SETS, "Desired"): of("spec", "replicas"),
    (_REPLICA_SETS, "Ready"): of("status", "readyReplicas"),
    (_STATEFUL_SETS, "Ready"): ready,
}
for _resource in (_DAEMON_SETS, _DEPLOYMENTS, _JOBS, _REPLICA_SETS, _STATEFUL_SETS):
    CELLS |= {
        (_resource, "Containers"): _containers("name"),
        (_resource, "Images"): _containers("image"),
        (_resource, "Selector"): lambda obj, _: selector(get(obj, "spec", "selector")),
    }
