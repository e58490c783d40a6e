"""The command that asks the same as a list of changes, to be pasted into a shell."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from laneway.core.fleet import board
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
from laneway.core.fleet.model import Fleet
from laneway.core.phrases import short_name


def command(changes: Iterable[Change], source: str = "") -> str:
    """`laneway plan what-if …`; `source`: an inventory file, empty for the live cluster.

    The changes are in the order of the command's own: nodes, GPUs, modes, GPU instances, nodes that
    leave, other requests, VMs. A change of requests names one VM, or one label.
    """
    words = ["laneway", "plan", "what-if", *(("--from", source) if source else ())]
    for one in changes:
        words += _option(one)
    return shlex.join(words)


def moves_command(
    fleet: Fleet, changes: Iterable[Change], source: str = "", *, restart: bool
) -> str:
    """`laneway plan moves …` for VMs that are added; empty: there are other changes as well."""
    names = board.by_resource(fleet)
    counts: Counter[str] = Counter()
    for one in changes:
        if not isinstance(one, AddVms) or one.selector or not names.keys() >= one.requests.keys():
            return ""
        for resource, each in one.requests.items():
            counts[short_name(names[resource])] += each * one.count
    options = (*(("--from", source) if source else ()), *(("--restart",) if restart else ()))
    wanted = (f"{name}={count}" if count > 1 else name for name, count in counts.items())
    return shlex.join(["laneway", "plan", "moves", *options, *wanted])


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
