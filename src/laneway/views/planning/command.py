"""The command that asks the same as a list of changes, to be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from laneway.core.fleet.changes import (
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    ChangeRequests,
    LeaveNode,
    SetInstances,
    SetMode,
)


def command(changes: Iterable[Change], source: str = "") -> str:
    """`laneway plan what-if …`; `source`: an inventory file, empty for the live cluster.

    The changes are in the order of the command's own: nodes, GPUs, modes, GPU instances, nodes that
    leave, other requests, VMs. A change of requests names one VM, or one label.
    """
    words = ["laneway", "plan", "what-if", *(("--from", source) if source else ())]
    for one in changes:
        words += _option(one)
    return shlex.join(words)


def _option(change: Change) -> Iterator[str]:
    match change:
        case AddNodes():
            yield from ("--add-nodes", change.nodes)
        case AddGpus():
            yield from ("--add-gpus", f"{change.node}:{change.count}x {change.board}")
        case SetMode():
            for gpu in change.gpus:
                yield from ("--mode", f"{gpu}={change.mode}")
        case SetInstances():
            for gpu in change.gpus:
                yield from ("--instances", f"{gpu}={_counted(change.instances)}")
        case LeaveNode():
            yield from ("--leave", change.node)
        case ChangeRequests():
            labels = (f"{key}={value}" for key, value in change.labels.items())
            for who in (*change.vms, *labels):
                yield from ("--change", f"{who}:{_counted(change.requests)}")
        case AddVms():
            labels = (f"{key}={value}" for key, value in change.selector.items())
            on = f" on {','.join(labels)}" if change.selector else ""
            yield from ("--vms", f"{change.count}x {_counted(change.requests)}{on}")


def _counted(devices: Mapping[str, int]) -> str:
    return ",".join(f"{name}={count}" for name, count in devices.items())
