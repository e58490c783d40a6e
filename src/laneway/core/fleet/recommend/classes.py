"""GPUs that are one and the same for a layout: same board, same mode, same vGPUs in use.

Only the number of each class enters the integer program, so a fleet of a hundred equal GPUs is as
small a problem as one GPU. GPUs in the mode MIG, claimed ones, those of closed nodes, and those of
which the driver does not tell where vGPUs in use are, stay as they are and are in no class.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import msgspec

from laneway.core.fleet import backed, board
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.movable import takes_vgpus, unused
from laneway.core.fleet.shape import Shape
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, Mode
from laneway.core.vgpu.card import Card
from laneway.core.vgpu.placement import Carried


class GpuClass(msgspec.Struct, frozen=True):
    """Equal GPUs."""

    gpus: tuple[Gpu, ...]
    card: Card
    held: tuple[Carried, ...]
    """On each of them."""
    modes: tuple[Mode, ...]
    """Those that it can have: the present one alone while vGPUs are in use."""
    mode: Mode
    """The present one."""
    idle: Mapping[str, int]
    """vGPUs without a holder on each of them, by profile."""
    backed: frozenset[str] = frozenset()
    """The MIG-backed profiles of the board."""
    offered: tuple[GpuInstanceProfile, ...] = ()
    """Its kinds of GPU instances."""
    instances: tuple[GpuInstance, ...] = ()
    """Those that stay on each of them."""

    def room(self, most: int) -> int:
        """How many more vGPUs one of them takes where a mode takes `most` in all."""
        functions = self.gpus[0].functions
        return max(0, (min(most, functions) if functions else most) - len(self.held))


def classes(fleet: Fleet) -> tuple[GpuClass, ...]:
    """The classes of a fleet, in the order of their first GPUs."""
    closed = {node.name for node in fleet.nodes if node.closed}
    alike: dict[object, list[Gpu]] = defaultdict(list)
    for gpu, takes in zip(fleet.gpus, takes_vgpus(fleet), strict=True):
        idle = sorted(one.profile for one in unused(gpu))
        here = (gpu.device, gpu.profiles, gpu.functions)
        if takes and _is_known(gpu):
            held = sorted((one.profile, one.slot or 0) for one in gpu.vgpus if one.holder)
            alike[here, board.is_mixed(gpu), tuple(held), tuple(idle)].append(gpu)
        elif gpu.mode == Mode.MIG_BACKED and not gpu.claimed and gpu.node not in closed:
            shape = backed.shape_of(gpu)
            alike[here, shape.kept, _in_use(shape), tuple(idle)].append(gpu)
    return tuple(_class(tuple(gpus)) for gpus in alike.values())


def _is_known(gpu: Gpu) -> bool:
    kinds = board.card(gpu).kinds
    held = [one for one in gpu.vgpus if one.holder]
    placed = not board.is_mixed(gpu) or all(one.slot is not None for one in held)
    return placed and all(one.profile in kinds for one in held)


def _class(gpus: tuple[Gpu, ...]) -> GpuClass:
    first = gpus[0]
    card = board.card(first)
    names = frozenset(backed.profiles(first.device, first.profiles).values())
    idle = Counter(one.profile for one in unused(first))
    if first.mode == Mode.MIG_BACKED:
        shape, mode = backed.shape_of(first), Mode.MIG_BACKED
        offered, there = shape.instance_profiles, _in_use(shape)
        return GpuClass(gpus, card, shape.kept, (mode,), mode, idle, names, offered, there)
    mode = Mode.MIXED_SIZE if board.is_mixed(first) else Mode.SAME_SIZE
    held = board.carried(first, held_only=True)
    offered = backed.kinds(first)
    modes = (mode,)
    if not held:
        mixes = (Mode.MIXED_SIZE,) if board.can_mix(card) else ()
        modes = (Mode.SAME_SIZE, *mixes, *((Mode.MIG_BACKED,) if offered else ()))
    return GpuClass(gpus, card, held, modes, mode, idle, names, offered)


def _in_use(shape: Shape) -> tuple[GpuInstance, ...]:
    """The GPU instances with a vGPU that stays."""
    starts = {one.start for one in shape.kept}
    return tuple(one for one in shape.instances if one.start in starts)
