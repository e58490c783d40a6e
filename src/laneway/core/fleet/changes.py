"""Changes that `laneway plan what-if` is asked about, as values, and what they make of a fleet.

They are applied one after the other to a copy of the fleet. A VM whose devices a change takes
away, and one that is new, ends up in `Changed.to_place`; all other VMs keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from itertools import islice
from typing import TypeVar

import msgspec

from laneway.core.fleet.known import ChangeError, known
from laneway.core.fleet.made_up import MOST_GPUS, MadeUpError, board_named, made_up, made_up_gpu
from laneway.core.fleet.model import Fleet, Gpu, Vm
from laneway.core.fleet.sharing import set_instances, set_mode
from laneway.core.ledger.facts import Phase
from laneway.core.phrases import line

T = TypeVar("T")

MOST_VMS = 10_000
MOST_OF_A_RESOURCE = 64
"""Devices of one resource that a VM can request."""
_SLOTS = 255
"""Numbers of buses that a made-up GPU can have."""


class _Change(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="change",
):
    pass


class AddVms(_Change, frozen=True, tag="AddVMs"):
    """So many VMs that are all alike."""

    requests: Mapping[str, int]
    """Devices by resource."""
    count: int = 1
    name: str = "new"
    selector: Mapping[str, str] = {}


class LeaveNode(_Change, frozen=True, tag="LeaveNode"):
    """A node is drained, or lost: its VMs start elsewhere, and stopped ones move what they keep."""

    node: str


class SetMode(_Change, frozen=True, tag="SetMode"):
    """GPUs get another mode; their free vGPUs go."""

    gpus: tuple[str, ...]
    """Names, or `NODE/ADDRESS`."""
    mode: str


class SetInstances(_Change, frozen=True, tag="SetInstances"):
    """GPUs get the mode MIG with these GPU instances, for containers; what else is free goes."""

    gpus: tuple[str, ...]
    """Names, or `NODE/ADDRESS`."""
    instances: Mapping[str, int]
    """How many of each kind: `3g.20gb`."""


class AddNodes(_Change, frozen=True, tag="AddNodes"):
    """Nodes as `made_up` has them: `2x hgx-h100`."""

    nodes: str


class AddGpus(_Change, frozen=True, tag="AddGPUs"):
    """More GPUs of a board in a node."""

    node: str
    board: str
    count: int = 1


class ChangeRequests(_Change, frozen=True, tag="ChangeRequests"):
    """VMs request other devices than they do, all of them instead of what they have."""

    requests: Mapping[str, int]
    vms: tuple[str, ...] = ()
    """`NAMESPACE/NAME`"""
    labels: Mapping[str, str] = {}
    """Also the VMs that have all of these."""


Change = AddVms | LeaveNode | SetMode | SetInstances | AddNodes | AddGpus | ChangeRequests


class Changed(msgspec.Struct, frozen=True):
    """A fleet after changes."""

    fleet: Fleet
    """Without what `to_place` had; they are still among its VMs, on no node."""
    to_place: tuple[Vm, ...] = ()
    refused: tuple[str, ...] = ()
    """What cannot be changed, in words."""


def carried_out(fleet: Fleet, changes: Iterable[Change]) -> Changed:
    """The fleet after all changes. Raises ChangeError."""
    return reduce(_carry_out, changes, Changed(fleet))


def _carry_out(before: Changed, change: Change) -> Changed:
    match change:
        case AddVms():
            return _add_vms(before, change)
        case LeaveNode():
            return _leave(before, change.node)
        case SetMode():
            return _sharing(before, *set_mode(before.fleet, change.gpus, change.mode))
        case SetInstances():
            found = set_instances(before.fleet, change.gpus, change.instances)
            return _sharing(before, *found)
        case AddNodes():
            return _add_nodes(before, change.nodes)
        case AddGpus():
            return _add_gpus(before, change)
        case ChangeRequests():
            return _change_requests(before, change)


def _add_vms(before: Changed, change: AddVms) -> Changed:
    _counts(change.requests)
    if not 1 <= change.count <= MOST_VMS:
        raise ChangeError(f"VMs to add: {change.count}; use 1 to {MOST_VMS}")
    names = {vm.name for vm in before.fleet.vms}
    new: list[Vm] = []
    number = 0
    while len(new) < change.count:
        number += 1
        if (name := f"{change.name}-{number}") not in names:
            new.append(
                Vm(
                    name=name,
                    phase=Phase.PENDING,
                    requests=change.requests,
                    selector=change.selector,
                )
            )
    after = msgspec.structs.replace(before.fleet, vms=(*before.fleet.vms, *new))
    return Changed(after, (*before.to_place, *new), before.refused)


def _leave(before: Changed, node: str) -> Changed:
    fleet = before.fleet
    _known_node(fleet, node)
    gone = {
        vgpu.holder for gpu in fleet.gpus if gpu.node == node for vgpu in gpu.vgpus if vgpu.holder
    }
    gone |= {one.holder for one in fleet.devices if one.node == node and one.holder}
    moving = [vm for vm in fleet.vms if vm.requests and (vm.name in gone or vm.node == node)]
    without = msgspec.structs.replace(
        fleet,
        nodes=tuple(one for one in fleet.nodes if one.name != node),
        gpus=tuple(one for one in fleet.gpus if one.node != node),
        devices=tuple(one for one in fleet.devices if one.node != node),
    )
    return _placing(before, moving, without)


def _sharing(before: Changed, fleet: Fleet, refused: tuple[str, ...]) -> Changed:
    return Changed(fleet, before.to_place, (*before.refused, *refused))


def _add_nodes(before: Changed, text: str) -> Changed:
    fleet = before.fleet
    more = _described(made_up, text)
    there = {node.name for node in fleet.nodes}
    named = {}
    for node in more.nodes:
        name, number = f"new-{node.name}", 1
        while name in there:
            number += 1
            name = f"new{number}-{node.name}"
        there.add(name)
        named[node.name] = name
    nodes = (msgspec.structs.replace(one, name=named[one.name]) for one in more.nodes)
    gpus = (
        msgspec.structs.replace(
            one, node=named[one.node], name=named[one.node] + one.name.removeprefix(one.node)
        )
        for one in more.gpus
    )
    after = msgspec.structs.replace(fleet, nodes=(*fleet.nodes, *nodes), gpus=(*fleet.gpus, *gpus))
    return Changed(after, before.to_place, before.refused)


def _add_gpus(before: Changed, change: AddGpus) -> Changed:
    fleet = before.fleet
    _known_node(fleet, change.node)
    if not 1 <= change.count <= MOST_GPUS:
        raise ChangeError(f"{change.count} GPUs: use 1 to {MOST_GPUS}")
    board = _described(board_named, change.board.lower())
    names = {gpu.name for gpu in fleet.gpus}
    addresses = {gpu.address for gpu in fleet.gpus if gpu.node == change.node}
    every = (made_up_gpu(change.node, board, slot) for slot in range(_SLOTS))
    able = (gpu for gpu in every if gpu.name not in names and gpu.address not in addresses)
    new = tuple(islice(able, change.count))
    if len(new) < change.count:
        raise ChangeError(f"node {line(change.node)} has room for {len(new)} more GPUs")
    after = msgspec.structs.replace(fleet, gpus=(*fleet.gpus, *new))
    return Changed(after, before.to_place, before.refused)


def _change_requests(before: Changed, change: ChangeRequests) -> Changed:
    _counts(change.requests)
    fleet = before.fleet
    by_name = {vm.name: vm for vm in fleet.vms}
    for name in change.vms:
        known(name, by_name, "VM")
    named = {*change.vms}
    chosen = [
        vm
        for vm in fleet.vms
        if vm.name in named or (change.labels and change.labels.items() <= vm.labels.items())
    ]
    if not chosen:
        labels = ", ".join(f"{key}={value}" for key, value in change.labels.items())
        raise ChangeError(f"no VM has the label {line(labels)}" if labels else "no VM is named")
    new = [msgspec.structs.replace(vm, requests=change.requests) for vm in chosen]
    return _placing(before, new, fleet)


def _placing(before: Changed, vms: list[Vm], fleet: Fleet) -> Changed:
    """These VMs are placed again; what they have is free."""
    moved = {vm.name: msgspec.structs.replace(vm, node="") for vm in vms}
    devices = tuple(
        msgspec.structs.replace(one, holder="") if one.holder in moved else one
        for one in fleet.devices
    )
    names = moved.keys()
    after = msgspec.structs.replace(
        fleet,
        vms=tuple([moved.get(vm.name, vm) for vm in fleet.vms]),
        gpus=tuple(
            [
                gpu if names.isdisjoint([one.holder for one in gpu.vgpus]) else _let_go(gpu, names)
                for gpu in fleet.gpus
            ]
        ),
        devices=devices,
    )
    rest = (vm for vm in before.to_place if vm.name not in moved)
    return Changed(after, (*rest, *moved.values()), before.refused)


def _let_go(gpu: Gpu, moved: Collection[str]) -> Gpu:
    vgpus = (
        msgspec.structs.replace(vgpu, holder="") if vgpu.holder in moved else vgpu
        for vgpu in gpu.vgpus
    )
    return msgspec.structs.replace(gpu, vgpus=tuple(vgpus))


def _known_node(fleet: Fleet, name: str) -> None:
    known(name, dict.fromkeys(node.name for node in fleet.nodes), "node")


def _counts(requests: Mapping[str, int]) -> None:
    if not requests or any(not 1 <= count <= MOST_OF_A_RESOURCE for count in requests.values()):
        raise ChangeError(
            f"a VM requests 1 to {MOST_OF_A_RESOURCE} of each resource, and of at least one"
        )


def _described(reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except MadeUpError as error:
        raise ChangeError(str(error)) from None
