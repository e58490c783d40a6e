"""Which VMs can be moved, with what they have, and to which GPUs.

A running VM is migrated to another node, and only where everything about the move is known. Of a
stopped VM, what is kept for it is kept on another GPU instead. A running VM that cannot be migrated
moves only where a restart is allowed. All others stay: pods, VMs that start just now, VMs with
devices besides vGPUs, and holders that nothing is known about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from operator import attrgetter

import msgspec

from laneway.core.fleet import board, fitting
from laneway.core.fleet.migration import Answer, between
from laneway.core.fleet.model import POD, Fleet, Gpu, Node, Vgpu, Vm
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Phase

_NOT_MIGRATABLE = "it is not live-migratable"
_SELECTOR = "its node selector keeps it from other GPUs"
_NO_TARGET = "no other GPU can carry its vGPUs"
_NOT_KNOWN = "it is not known whether it is live-migratable"
_SHARED = (*board.SHARED_BY_TIME, Mode.MIG_BACKED)


class How(StrEnum):
    """How a VM moves."""

    MIGRATE = "migrate"
    """It goes to another node while it runs."""
    RESTART = "restart"
    """It is stopped, and started on another GPU."""
    STOPPED = "stopped"
    """It is stopped, and stays so; other vGPUs are kept for it."""


class Leg(msgspec.Struct, frozen=True):
    """One vGPU of a VM, and the GPU that carries it."""

    vgpu: str
    profile: str
    gpu: int
    """Its number in the fleet."""


class Unit(msgspec.Struct, frozen=True):
    """What moves as one: a VM with all of its vGPUs. One without a name is what is wanted."""

    vm: str
    legs: tuple[Leg, ...]
    how: How = How.STOPPED
    selector: Mapping[str, str] = {}


def takes_vgpus(fleet: Fleet, *, in_instances: bool = False) -> list[bool]:
    """For each GPU, whether more vGPUs can be put on it: shared by time, on an open node.

    `in_instances`: also those whose vGPUs are in GPU instances.
    """
    closed = {node.name for node in fleet.nodes if node.closed}
    modes = _SHARED if in_instances else board.SHARED_BY_TIME
    return [gpu.mode in modes and not gpu.claimed and gpu.node not in closed for gpu in fleet.gpus]


def units(fleet: Fleet, *, restart: bool = False) -> tuple[dict[str, Unit], dict[str, str]]:
    """The VMs that can be moved by name, and why each other holder of a vGPU stays.

    `restart`: running VMs that cannot be migrated may be restarted.
    """
    legs: dict[str, list[Leg]] = defaultdict(list)
    for number, gpu in enumerate(fleet.gpus):
        for one in gpu.vgpus:
            if one.holder:
                legs[one.holder].append(Leg(one.name, one.profile, number))
    vms = {vm.name: vm for vm in fleet.vms}
    others = {device.holder for device in fleet.devices}
    found: dict[str, Unit] = {}
    stay: dict[str, str] = {}
    for holder, there in legs.items():
        why = _stays(vms.get(holder), fleet, there, others, restart=restart)
        if why:
            stay[holder] = why
        else:
            vm = vms[holder]
            found[holder] = Unit(holder, tuple(there), _how(vm), vm.selector)
    return found, stay


def _how(vm: Vm) -> How:
    if vm.phase is not Phase.RUNNING:
        return How.STOPPED
    return How.MIGRATE if vm.migratable else How.RESTART


def _stays(vm: Vm | None, fleet: Fleet, legs: list[Leg], others: set[str], *, restart: bool) -> str:
    """Why a holder is not moved; empty: it can be."""
    if vm is None:
        return "nothing is known about it"
    if vm.name.startswith(POD):
        return "a pod cannot be moved"
    if vm.stopping:
        return "it is stopping"
    if vm.phase is Phase.PENDING:
        return "it is about to start"
    if vm.name in others:
        return "it has devices besides vGPUs"
    if others_ := [mode for leg in legs if (mode := fleet.gpus[leg.gpu].mode) not in _SHARED]:
        return f"its GPU is in the mode {others_[0]}"
    if _how(vm) is How.RESTART and not restart:
        return _NOT_KNOWN if vm.migratable is None else _NOT_MIGRATABLE
    return ""


def can_restart(why: str) -> bool:
    """Whether a holder that stays for this reason would move if it might be restarted."""
    return why in {_NOT_MIGRATABLE, _NOT_KNOWN}


def may_go(
    unit: Unit, leg: Leg, source: Gpu | None, target: Gpu, nodes: Mapping[str, Node]
) -> bool:
    """Whether one vGPU of a unit may go to a GPU, room aside. `source` None: it is new."""
    if not fitting.offers(target, leg.profile):
        return False
    node = nodes.get(target.node)
    labels = node.labels if node else {}
    if any(labels.get(key) != value for key, value in unit.selector.items()):
        return False
    if source is None:
        return True
    if unit.how is not How.MIGRATE:
        return source.name != target.name
    return source.node != target.node and between(source, target).answer is Answer.YES


def bound(fleet: Fleet, movable: Iterable[Unit]) -> dict[str, str]:
    """The VMs that could be moved to more GPUs but for their selector, or to none at all."""
    nodes = {node.name: node for node in fleet.nodes}
    takes = takes_vgpus(fleet, in_instances=True)
    open_ = [gpu for gpu, one in zip(fleet.gpus, takes, strict=True) if one]

    @cache
    def on_nodes(selector: frozenset[tuple[str, str]], chosen: bool) -> list[list[Gpu]]:
        """Alike but for their places, so one of each kind answers for all."""
        named = {name for name, node in nodes.items() if selector <= node.labels.items()}
        alike: dict[object, list[Gpu]] = defaultdict(list)
        for gpu in open_:
            if (not selector or gpu.node in named) is chosen:
                key = gpu.device, gpu.subsystem, gpu.profiles, gpu.ecc, gpu.driver, gpu.mode
                alike[key].append(gpu)
        return list(alike.values())

    def reaches(unit: Unit, leg: Leg, alike: list[Gpu]) -> bool:
        source = fleet.gpus[leg.gpu]
        place = attrgetter("node" if unit.how is How.MIGRATE else "name")
        target = next((gpu for gpu in alike if place(gpu) != place(source)), None)
        return target is not None and may_go(unit, leg, source, target, nodes)

    def has_target(unit: Unit, selector: Mapping[str, str], *, chosen: bool) -> bool:
        kinds = on_nodes(frozenset(selector.items()), chosen)
        return all(any(reaches(unit, leg, alike) for alike in kinds) for leg in unit.legs)

    found: dict[str, str] = {}
    for unit in movable:
        anywhere = msgspec.structs.replace(unit, selector={})
        if unit.selector and has_target(anywhere, unit.selector, chosen=False):
            found[unit.vm] = _SELECTOR
        elif not has_target(unit, unit.selector, chosen=True):
            found[unit.vm] = _NO_TARGET
    return found


def unused(gpu: Gpu) -> tuple[Vgpu, ...]:
    """The vGPUs that no VM or pod has."""
    return tuple(one for one in gpu.vgpus if not one.holder)
