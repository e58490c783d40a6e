"""Whether a fleet has room after some changes: yes or no, where each VM goes, and why not.

The rule: a vGPU need not exist. Where a GPU's memory is free, the plan may make one, and it may
remove vGPUs that no VM has. What a VM has stays where it is; a stopped VM keeps its reserved vGPUs.
VMs are placed one after the other, those with the most memory first, each whole on one node. On one
node `room.TRIED` ways to place a VM are tried at the most. Over many VMs a no is what this order
reaches; another order may place more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from laneway.core.fleet.changes import Change, carried_out
from laneway.core.fleet.model import Fleet, Vm
from laneway.core.fleet.no_room import why_not
from laneway.core.fleet.room import Alike, Got, Room, alike
from laneway.core.ledger.facts import Phase
from laneway.core.names import is_instance_resource


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A VM, and where it goes."""

    vm: str
    node: str
    before: str = ""
    """Its node today; empty: it has none."""
    devices: tuple[Got, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """A VM that has no place, and why."""

    vm: str
    words: str


class Left(msgspec.Struct, frozen=True):
    """How many devices of a resource VMs could still get, if it were the only one."""

    resource: str
    today: int
    then: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question."""

    placed: tuple[Placement, ...] = ()
    refused: tuple[Refused, ...] = ()
    unchangeable: tuple[str, ...] = ()
    """Changes that are not possible, in words."""
    waiting: tuple[Refused, ...] = ()
    """VMs that wait for devices today, and would wait on."""
    left: tuple[Left, ...] = ()

    @property
    def yes(self) -> bool:
        return not (self.refused or self.unchangeable)


def what_if(fleet: Fleet, changes: Iterable[Change], effort: float = math.inf) -> Answer:
    """The answer. Without changes it is about the VMs that wait today.

    `effort`: as `Room` has it. Raises ChangeError, TooLongError.
    """
    asked = list(changes)
    after = carried_out(fleet, asked)
    today = Room(fleet)
    room = Room(after.fleet, today, effort)
    known = {vm.name for vm in after.to_place}
    waits = [vm for vm in waiting(fleet) if vm.name not in known]
    wanted = {vm.name for vm in (after.to_place if asked else waits)}
    asks = known.union(vm.name for vm in waits)
    before = {vm.name: vm.node for vm in fleet.vms if vm.name in asks}
    placed, refused = [], []
    why: dict[Alike, str] = {}
    # Those that wait had asked before any new VM; those that a change moves are running already.
    first = [vm for vm in after.to_place if vm.name in before]
    new = [vm for vm in after.to_place if vm.name not in before]
    for group in (first, waits, new):
        for vm, spot in room.place_all(group):
            if spot is None:
                # Thousands of one kind may find no room, and looking at all nodes for each is slow.
                if (kind := alike(vm)) not in why:
                    why[kind] = why_not(room, vm)
                refused.append(Refused(vm.name, why[kind]))
            else:
                why.clear()
                placed.append(
                    Placement(
                        vm=vm.name, node=spot[0], before=before.get(vm.name, ""), devices=spot[1]
                    )
                )
    resources = {name for vm in (*after.to_place, *waits) for name in vm.requests}
    return Answer(
        placed=tuple(placed),
        refused=tuple(one for one in refused if one.vm in wanted),
        unchangeable=after.refused,
        waiting=tuple(one for one in refused if one.vm not in wanted),
        left=tuple(_left(today, room, sorted(resources))),
    )


def waiting(fleet: Fleet) -> list[Vm]:
    """VMs that are to run and lack devices, the oldest first."""
    pending = [
        vm
        for vm in fleet.vms
        if vm.phase is Phase.PENDING and any(vm.requests.values())
        # What a pod has of GPU instances follows from its node alone.
        if not (vm.node and any(map(is_instance_resource, vm.requests)))
    ]
    if not pending:
        return []
    holders = {vgpu.holder for gpu in fleet.gpus for vgpu in gpu.vgpus}
    holders |= {device.holder for device in fleet.devices}
    found = (vm for vm in pending if vm.name not in holders)
    return sorted(found, key=lambda vm: (vm.created, vm.name))


def _left(today: Room, then: Room, resources: Sequence[str]) -> Iterator[Left]:
    before, after = today.totals(resources), then.totals(resources)
    for resource in resources:
        yield Left(resource, before[resource], after[resource])
