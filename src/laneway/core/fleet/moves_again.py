"""Whether moves that were found before still hold, by the fleet as it is now.

Nothing of the first look is trusted: each VM is still where it was and as it was, its target still
takes it, and all moves that are left have room one after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.movable import How, Unit, may_go, takes_vgpus, units, unused
from laneway.core.fleet.moves import Move, in_the_way, possible
from laneway.core.ledger.facts import Phase

_WAS = {
    How.MIGRATE: "it ran and could be migrated",
    How.RESTART: "it ran",
    How.STOPPED: "it was stopped",
}
_IS = {
    How.MIGRATE: "it runs and can be migrated",
    How.RESTART: "it runs and cannot be migrated",
    How.STOPPED: "it is stopped",
}


def changed(
    fleet: Fleet, moves: Sequence[Move], places: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """Why these moves do not hold any more; nothing where they do.

    `places`: profile and GPU of each vGPU that is wanted after them.
    """
    movable, stay = units(fleet, restart=True)
    found = [*_moved(fleet, moves, movable, stay)]
    if found:
        return tuple(found)
    numbers = {gpu.name: number for number, gpu in enumerate(fleet.gpus)}
    wanted: dict[int, Counter[str]] = defaultdict(Counter)
    for profile, gpu in places:
        if gpu not in numbers:
            return (f"there is no GPU {gpu} any more",)
        wanted[numbers[gpu]][profile] += 1
    order = tuple(
        (movable[move.vm], tuple(numbers[_leg_of(move, leg.vgpu)] for leg in movable[move.vm].legs))
        for move in moves
    )
    if not possible(fleet, order, wanted):
        gpus = dict.fromkeys(leg.target for move in moves for leg in move.legs)
        gpus |= dict.fromkeys(gpu for _, gpu in places)
        return (f"there is no room for it any more on {', '.join(gpus)}",)
    return ()


def _leg_of(move: Move, vgpu: str) -> str:
    return next(leg.target for leg in move.legs if leg.vgpu == vgpu)


def _moved(
    fleet: Fleet, moves: Sequence[Move], movable: dict[str, Unit], stay: dict[str, str]
) -> Iterator[str]:
    gpus = {gpu.name: gpu for gpu in fleet.gpus}
    takes = takes_vgpus(fleet, in_instances=True)
    open_ = {gpu.name for gpu, takes_more in zip(fleet.gpus, takes, strict=True) if takes_more}
    nodes = {node.name: node for node in fleet.nodes}
    for move in moves:
        unit = movable.get(move.vm)
        if unit is None:
            yield f"{move.vm}: {stay.get(move.vm, 'it has no vGPU any more')}"
            continue
        if unit.how is not move.how:
            yield f"{move.vm}: {_WAS[move.how]}, and {_IS[unit.how]} now"
            continue
        has = {(leg.vgpu, fleet.gpus[leg.gpu].name, leg.profile) for leg in unit.legs}
        if has != {(leg.vgpu, leg.source, leg.profile) for leg in move.legs}:
            names = ", ".join(sorted(name for name, _, _ in has))
            yield f"{move.vm}: it has other vGPUs than before: {names}"
            continue
        for leg in unit.legs:
            target = gpus.get(_leg_of(move, leg.vgpu))
            if target is None or target.name not in open_:
                yield f"GPU {_leg_of(move, leg.vgpu)} takes no vGPUs any more"
            elif not may_go(unit, leg, fleet.gpus[leg.gpu], target, nodes):
                yield f"{move.vm}: it may not go to {target.name} any more"


def to_clear(fleet: Fleet, arrivals: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The unused vGPUs that are to be removed before these come. `arrivals`: profile and GPU."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for profile, gpu in arrivals:
        counts[gpu][profile] += 1
    return tuple(name for gpu in fleet.gpus for name in in_the_way(gpu, counts[gpu.name]))


def ready(gpu: Gpu, profile: str) -> tuple[str, ...]:
    """The vGPUs of a profile on a GPU that are unused and can be allocated."""
    return tuple(one.name for one in unused(gpu) if one.profile == profile and not one.unhealthy)


def held(fleet: Fleet, vm: str) -> dict[str, str]:
    """The vGPUs that a VM has or that are kept for it, with the GPU of each."""
    return {one.name: gpu.name for gpu in fleet.gpus for one in gpu.vgpus if one.holder == vm}


def needs_pin(fleet: Fleet, move: Move) -> bool:
    """Whether the VM could start on another node than its target: another has free vGPUs for it."""
    closed = {node.name for node in fleet.nodes if node.closed}
    profiles = {leg.profile for leg in move.legs}
    own = {leg.vgpu for leg in move.legs}
    return any(
        one.profile in profiles and (one.name in own or not (one.holder or one.unhealthy))
        for gpu in fleet.gpus
        if gpu.node != move.target and gpu.node not in closed
        for one in gpu.vgpus
    )


def state_of(fleet: Fleet, vm: str) -> str:
    """In which state a VM is, in words."""
    found = next((one for one in fleet.vms if one.name == vm), None)
    if found is None:
        return f"{vm} is not there any more"
    where = ", ".join(dict.fromkeys(held(fleet, vm).values()))
    if found.stopping:
        return (
            f"{vm} is stopping on node {found.node}{f'; it has vGPUs of {where}' if where else ''}"
        )
    if found.phase is Phase.RUNNING:
        return f"{vm} runs on node {found.node}{f' with vGPUs of {where}' if where else ''}"
    if found.phase is Phase.PENDING:
        return f"{vm} is starting{f' on node {found.node}' if found.node else ''}"
    return f"{vm} is stopped{f', and vGPUs of {where} are kept for it' if where else ''}"
