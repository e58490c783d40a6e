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
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    ChangeRequests,
    LeaveNode,
    SetMode,
)
from laneway.core.fleet.inventory_file import InventoryError, placed, plain_value
from laneway.core.fleet.made_up import boards
from laneway.core.fleet.model import Fleet
from laneway.core.names import vgpu_resource_name

_COUNTED = re.compile(r"\s*(?:(-?[0-9]{1,18})\s*x\s*)?(.*)")


class Asked(NamedTuple):
    """Changes as they were typed."""

    vms: Sequence[str] = ()
    leave: Sequence[str] = ()
    mode: Sequence[str] = ()
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
    known = _resources(fleet)
    found: list[Change] = [one for file in asked.files for one in _of_file(file)]
    found += [AddNodes(nodes=text) for text in asked.nodes]
    found += [_gpus(text) for text in asked.gpus]
    found += [_mode(text) for text in asked.mode]
    found += [LeaveNode(node=node) for node in dict.fromkeys(asked.leave)]
    found += [_requests(text) for text in asked.requests]
    found += [_vms(text) for text in asked.vms]
    return [_in_full(one, known) for one in found]


def _resources(fleet: Fleet) -> set[str]:
    """All that VMs can request, also of boards that are not there yet."""
    names = {name for gpu in fleet.gpus for name in gpu.profiles}
    names |= {vgpu.profile for gpu in fleet.gpus for vgpu in gpu.vgpus}
    boards_there = {name.rpartition(" ")[2] for name in names}
    names |= {
        name
        for _, profiles in boards().values()
        for name in profiles
        if name.rpartition(" ")[2] not in boards_there
    }
    return {vgpu_resource_name(name) for name in names} | {one.resource for one in fleet.devices}


def _in_full(change: Change, known: Iterable[str]) -> Change:
    if isinstance(change, AddVms | ChangeRequests):
        full = question.in_full(change.requests, known)
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
    match = _COUNTED.fullmatch(text)
    count, rest = (int(match[1] or 1), match[2]) if match else (1, text)
    return AddVms(count=count, requests=question.requested(rest.split(","), MOST_OF_A_RESOURCE))


def _gpus(text: str) -> AddGpus:
    node, _, rest = text.partition(":")
    match = _COUNTED.fullmatch(rest)
    if not node or match is None or not match[2]:
        raise click.BadParameter(
            f"--add-gpus {text}: write NODE:NUMBERx BOARD, such as 'node1:2x l40s'"
        )
    return AddGpus(node=node, board=match[2].strip(), count=int(match[1] or 1))


def _mode(text: str) -> SetMode:
    gpu, separator, mode = text.rpartition("=")
    if not separator:
        raise click.BadParameter(
            f"--mode {text}: write GPU=MODE, such as node1/0000:08:00.0=MixedSize"
        )
    return SetMode(gpus=(gpu,), mode=mode)


def _requests(text: str) -> ChangeRequests:
    who, separator, what = text.partition(":")
    if not separator:
        raise click.BadParameter(
            f"--change {text}: write NAMESPACE/NAME:RESOURCE=COUNT, or KEY=VALUE:…"
        )
    requests = question.requested(what.split(","), MOST_OF_A_RESOURCE)
    key, labelled, value = who.partition("=")
    if labelled:
        return ChangeRequests(labels={key: value}, requests=requests)
    return ChangeRequests(vms=(who,), requests=requests)
