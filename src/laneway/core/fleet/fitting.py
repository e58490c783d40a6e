"""What VMs hold on a GPU, and whether more vGPUs fit next to it, by the rules of its mode.

vGPUs that no VM has are left out: they are free room. So are GPU instances that no vGPU is in, but
for one thing: a new vGPU goes into such an instance before another one is made.

The start of a vGPU is its first memory slot, or in the mode MIGBacked that of its GPU instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from laneway.core.fleet import backed, board, placing
from laneway.core.fleet.model import Gpu
from laneway.core.fleet.shape import Shape
from laneway.core.gpu.modes import Mode
from laneway.core.names import vgpu_resource_name
from laneway.core.packing import gpus
from laneway.core.vgpu.placement import Carried, arrange


def in_instances(gpu: Gpu | Shape) -> bool:
    """Whether its vGPUs are in GPU instances."""
    return gpu.mode == Mode.MIG_BACKED


def places(gpu: Gpu) -> dict[str, Carried]:
    """Its vGPUs by name, those that no VM has as well."""
    starts = backed.starts(gpu) if in_instances(gpu) else {}
    return {
        one.name: Carried(one.profile, starts.get(one.instance) if in_instances(gpu) else one.slot)
        for one in gpu.vgpus
    }


def shape_of(gpu: Gpu) -> Shape:
    """A GPU with what VMs hold, and nothing else."""
    there = places(gpu)
    held = (there[one.name] for one in gpu.vgpus if one.holder)
    return msgspec.structs.replace(placing.shape_of(gpu), kept=gpus.in_order(held), free=())


def with_one(shape: Shape, one: Carried) -> Shape:
    """One vGPU more, wherever it is."""
    return msgspec.structs.replace(shape, kept=gpus.in_order((*shape.kept, one)))


def without(shape: Shape, one: Carried) -> Shape:
    """One vGPU less. The GPU instance that it leaves stays."""
    kept = list(shape.kept)
    kept.remove(one)
    return msgspec.structs.replace(shape, kept=tuple(kept))


def offers(gpu: Gpu, profile: str) -> bool:
    """Whether a GPU has a profile in its mode."""
    if in_instances(gpu):
        return profile in backed.profiles(gpu.device, gpu.profiles).values()
    return profile in board.card(gpu).kinds


def put(shape: Shape, profile: str) -> Shape | None:
    """One more vGPU, where the driver puts it; None: there is no room."""
    taken = placing.take(shape, vgpu_resource_name(profile))
    return taken.shape if taken else None


def fit(shape: Shape, more: Mapping[str, int]) -> bool:
    """Whether vGPUs, by profile, can be made together next to what VMs hold."""
    if not in_instances(shape):
        return may_fit(shape, shape.kept, more)
    return _have_functions(shape, shape.kept, more) and backed.fit(
        shape.instance_profiles, shape.instances, shape.kept, more
    )


def may_fit(shape: Shape, kept: Sequence[Carried], more: Mapping[str, int]) -> bool:
    """Whether vGPUs might fit next to some that VMs hold, however they come to be there.

    Where it says no, no order in which vGPUs come and go ends with these.
    """
    if not _have_functions(shape, kept, more):
        return False
    if in_instances(shape):
        return backed.have_places(shape.instance_profiles, shape.instances, kept, more)
    return arrange(shape.card, kept, more, mixed=shape.mode == Mode.MIXED_SIZE) is not None


def _have_functions(shape: Shape, kept: Sequence[Carried], more: Mapping[str, int]) -> bool:
    return not shape.functions or len(kept) + sum(more.values()) <= shape.functions


def most(shape: Shape, profile: str) -> int:
    """How many vGPUs of a profile it takes where VMs hold nothing."""
    empty = msgspec.structs.replace(shape, kept=(), free=(), instances=())
    return placing.room_for(empty, vgpu_resource_name(profile))


def instances_of(gpu: Gpu) -> dict[str, int]:
    """How many GPU instances of each profile a GPU has."""
    return dict(Counter(one.profile for one in backed.shape_of(gpu).instances))


def instances_with(gpu: Gpu, profile: str) -> dict[str, int] | None:
    """The same once one more vGPU has room next to all that are there; None: it gets none."""
    shape = backed.shape_of(gpu)
    there = gpus.in_order((*shape.kept, *shape.free))
    full = msgspec.structs.replace(shape, kept=there, free=())
    after = put(full, profile)
    return None if after is None else dict(Counter(one.profile for one in after.instances))
