"""The changes of `laneway plan what-if` as people write them: arguments, or a YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import click
import msgspec

from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure
from laneway.cli.planning.sources import content_of
from laneway.core.fleet.changes import (
    MOST_OF_A_RESOURCE,
    MOST_VMS,
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    ChangeRequests,
    LeaveNode,
    SetInstances,
    SetMode,
)
from laneway.core.fleet.inventory_file import InventoryError, placed, plain_value
from laneway.core.fleet.made_up import MOST_GPUS, MadeUpError, made_up
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.resources import resources
from laneway.core.fleet.sharing import MOST_INSTANCES

_ON = " on "
_INSTANCES = re.compile(r"mig-[0-9][^/]*")
_COUNTED = re.compile(r"\s*(?:(-?[0-9]{1,18})\s*x\s*)?(.*)")


class Asked(NamedTuple):
    """Changes as they were typed."""

    vms: Sequence[str] = ()
    leave: Sequence[str] = ()
    mode: Sequence[str] = ()
    instances: Sequence[str] = ()
    nodes: Sequence[str] = ()
    gpus: Sequence[str] = ()
    requests: Sequence[str] = ()
    files: Sequence[str] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["FleetChanges"]
    version: Literal[1]
    changes: tuple[Change, ...]


def changes(asked: Asked, fleet: Fleet) -> list[Change]:
    """What they mean: the fleet grows first, then it loses, then VMs change. Raises Failure."""
    known = resources(fleet)
    found: list[Change] = [one for file in asked.files for one in _of_file(file)]
    found += [_nodes(text) for text in asked.nodes]
    found += [_gpus(text) for text in asked.gpus]
    found += [_mode(text) for text in asked.mode]
    found += [_instances(text) for text in asked.instances]
    found += [LeaveNode(node=node) for node in dict.fromkeys(asked.leave)]
    found += [_requests(text) for text in asked.requests]
    found += [_vms(text) for text in asked.vms]
    return [_in_full(one, known) for one in found]


def _prefixed(name: str) -> str:
    """`mig-1g.5gb` in full, as Kubernetes has it."""
    return f"nvidia.com/{name}" if _INSTANCES.fullmatch(name) else name


def _in_full(change: Change, known: Iterable[str]) -> Change:
    if isinstance(change, AddVms | ChangeRequests):
        names = {_prefixed(name): count for name, count in change.requests.items()}
        full = question.in_full(names, known)
        return msgspec.structs.replace(change, requests=full)
    return change


def _of_file(path: str) -> tuple[Change, ...]:
    try:
        return msgspec.convert(plain_value(content_of(path), "a file of changes"), _File).changes
    except InventoryError as error:
        raise Failure(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise Failure(f"{path}: {placed(error)}") from None


def _vms(text: str) -> AddVms:
    devices, _, labels = text.partition(_ON)
    match = _COUNTED.fullmatch(devices)
    count, rest = (int(match[1] or 1), match[2]) if match else (1, devices)
    if not 1 <= count <= MOST_VMS:
        raise click.BadParameter(f"--vms {text}: use 1 to {MOST_VMS} VMs")
    return AddVms(
        count=count,
        requests=_counts("--vms", rest, MOST_OF_A_RESOURCE),
        selector=question.labels(labels.split(",")) if labels else {},
    )


def _counts(option: str, text: str, most: int) -> dict[str, int]:
    """What `RESOURCE=COUNT,...` asks for. `option`: where it stands."""
    try:
        return question.requested(text.split(","), most)
    except click.BadParameter as error:
        raise click.BadParameter(f"{option} {error.message}") from None


def _nodes(text: str) -> AddNodes:
    try:
        made_up(text)
    except MadeUpError as error:
        raise click.BadParameter(f"--add-nodes {error}") from None
    return AddNodes(nodes=text)


def _gpus(text: str) -> AddGpus:
    node, _, rest = text.partition(":")
    match = _COUNTED.fullmatch(rest)
    if not node or match is None or not match[2]:
        raise click.BadParameter(
            f"--add-gpus {text}: write NODE:NUMBERx BOARD, such as 'node1:2x l40s'"
        )
    count = int(match[1] or 1)
    if not 1 <= count <= MOST_GPUS:
        raise click.BadParameter(f"--add-gpus {text}: use 1 to {MOST_GPUS} GPUs")
    return AddGpus(node=node, board=match[2].strip(), count=count)


def _mode(text: str) -> SetMode:
    gpu, separator, mode = text.rpartition("=")
    if not separator:
        raise click.BadParameter(
            f"--mode {text}: write GPU=MODE, such as node1/0000:08:00.0=MixedSize"
        )
    return SetMode(gpus=(gpu,), mode=mode)


def _instances(text: str) -> SetInstances:
    gpu, separator, what = text.partition("=")
    if not (separator and what):
        raise click.BadParameter(
            f"--instances {text}: write GPU=INSTANCE=COUNT,…, such as "
            "node1/0000:08:00.0=3g.20gb,1g.5gb=2"
        )
    return SetInstances(gpus=(gpu,), instances=_counts("--instances", what, MOST_INSTANCES))


def _requests(text: str) -> ChangeRequests:
    who, separator, what = text.partition(":")
    if not separator:
        raise click.BadParameter(
            f"--change {text}: write NAMESPACE/NAME:RESOURCE=COUNT, or KEY=VALUE:…"
        )
    requests = _counts("--change", what, MOST_OF_A_RESOURCE)
    key, labelled, value = who.partition("=")
    if labelled:
        return ChangeRequests(labels={key: value}, requests=requests)
    return ChangeRequests(vms=(who,), requests=requests)
