"""The layout of a card in MIG mode: first its GPU instances, then the vGPUs in them.

The driver chooses the instance of a vGPU by itself, the lowest that serves its profile and has
room for its size. So instances are made for what is desired as a whole, and vGPUs of one size come
one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from laneway.core.gpu.modes import GpuInstance
from laneway.core.inventory import VgpuFunction
from laneway.core.layout.view import (
    Choice,
    View,
    choose,
    creations,
    is_held,
    losses,
    missing,
    offered_names,
    removals,
    type_id,
    untouchable,
    words,
)
from laneway.core.mig.homes import Home, creation_order, homes
from laneway.core.mig.instances import (
    InstanceSet,
    Obstacle,
    arrange_instances,
    assemble,
    instances_needed,
    placements_of,
)
from laneway.core.mig.profiles import expected_profiles, serving
from laneway.core.phrases import several
from laneway.core.plan import CreateComputeInstance, Step
from laneway.core.refusals import InstancesDoNotFit, ProfileNotListed, Refusal
from laneway.core.sriov.vfs import held


def unfitting(view: View) -> tuple[Refusal, ...]:
    """Why the spec fits on no card of this board, even an empty one, as far as is known."""
    offered = view.modes.profiles or expected_profiles(view.gpu.device)
    if not offered:
        return ()
    needed = instances_needed(view.wanted, offered)
    fits = needed if isinstance(needed, Obstacle) else arrange_instances(offered, (), needed)
    return _refused(view, fits.text) if isinstance(fits, Obstacle) else ()


def instance_words(view: View) -> tuple[str, ...]:
    """Which GPU instances a further plan is to make, for a person."""
    offered = view.modes.profiles or expected_profiles(view.gpu.device)
    needed = instances_needed(view.wanted, offered)
    if isinstance(needed, Obstacle):
        return ("create the GPU instances that the profiles need",)
    return tuple(f"create {count} x GPU instance {name}" for name, count in needed.items())


def plan_mig(view: View) -> tuple[tuple[Refusal, ...], list[Step], tuple[str, ...]]:
    """What speaks against it, the steps, and in words what must wait for a further plan."""
    choice, found, order = _keeping(view, lambda _: True)
    if order is None:
        # What is there may be in the way; unused vGPUs can sit elsewhere.
        choice, found, order = _keeping(view, lambda _: False)
    if isinstance(found, Obstacle):
        return (*choice.against, *_refused(view, found.text)), [], ()
    if order is None:
        return (*choice.against, *_refused(view, _DRIVERS_CHOICE)), [], ()
    against = (*choice.against, *untouchable(view, choice.kept))
    if found.destroy:
        # Who computes on a GPU instance has the card itself open; on which one is not known.
        against += tuple(held(view.gpu.address, view.situation))
    left = missing(view, choice.kept)
    instance_steps = _instance_steps(view, found)
    steps = [*removals(choice.removed), *instance_steps]
    unlisted = [name for name in left if not _can_name(view, name)]
    if unlisted and not instance_steps:
        offered = offered_names(view)
        return (*against, *(ProfileNotListed(name, offered) for name in unlisted)), [], ()
    if unlisted:
        return against, steps, words(view, left)
    return against, [*steps, *creations(view, choice.kept, order)], ()


_DRIVERS_CHOICE = "the driver fills the first instance with room, and not all vGPUs find one"


def _keeping(
    view: View, keeps: Callable[[VgpuFunction], bool]
) -> tuple[Choice, InstanceSet | Obstacle, tuple[str, ...] | None]:
    """What stays, the other instances, and the order of new vGPUs; None when there is none."""
    offered, existing = view.modes.profiles, view.modes.instances
    choice = choose(view, keeps)
    vgpus = [(one, one.configured) for one in choice.kept if one.configured]
    taken = [
        (vgpu.gpu_instance, vgpu.type_name) for _, vgpu in vgpus if vgpu.gpu_instance is not None
    ]
    needed = instances_needed(view.wanted, offered, taken)
    if isinstance(needed, Obstacle):
        return choice, needed, None
    carrying = {one: _places(view, one) for one, _ in vgpus}
    in_use = (places for one, places in carrying.items() if is_held(view, one))
    found = arrange_instances(
        offered,
        existing,
        needed,
        pinned=frozenset().union(*in_use),
        carrying=frozenset().union(*carrying.values()),
    )
    if isinstance(found, Obstacle):
        return choice, found, None
    choice = _without(view, choice, found.destroy)
    return choice, found, _order(view, choice, found)


def _order(view: View, choice: Choice, found: InstanceSet) -> tuple[str, ...] | None:
    new = [Home(one.name) for one, _ in found.create]
    left = tuple(one for one in view.modes.instances if one not in found.destroy)
    stay = homes(choice.kept, replace(view.modes, instances=left))
    # Ids of instances that are still to be made may come before or after the others.
    lines = ([*new, *stay], [*stay, *new])
    return creation_order(missing(view, choice.kept), view.modes.profiles, lines)


def _places(view: View, function: VgpuFunction) -> frozenset[int]:
    """Placements of the GPU instance of a vGPU: all that it may be in, where not known."""
    return placements_of(function.configured, view.modes) if function.configured else frozenset()


def _without(view: View, choice: Choice, destroyed: Iterable[GpuInstance]) -> Choice:
    """What stays once vGPUs have gone with their GPU instances."""
    gone = {one.start for one in destroyed}
    lost = [one for one in choice.kept if _places(view, one) & gone]
    kept = tuple(one for one in choice.kept if one not in lost)
    removed = tuple(one for one, _ in view.carried if one not in kept)
    return Choice(kept, removed, losses(view, removed))


def _instance_steps(view: View, found: InstanceSet) -> list[Step]:
    function = view.gpu.address
    steps = assemble(function, found)
    needed = {
        one[1].name for one in (serving(name, view.modes.profiles) for name in view.wanted) if one
    }
    steps += [
        CreateComputeInstance(function, one.start)
        for one in view.modes.instances
        if one not in found.destroy and not one.compute_instances and one.profile in needed
    ]
    return steps


def _can_name(view: View, name: str) -> bool:
    """Whether the steps for a profile can be written now; vendor VFIO looks it up at the write."""
    mdev = any(function.framework == "mdev" for function in view.functions)
    return not mdev or bool(type_id(view, name))


def _refused(view: View, obstacle: str) -> tuple[Refusal, ...]:
    asked = tuple(f"for {several(name, count)}" for name, count in view.wanted.items())
    return (InstancesDoNotFit(view.device, asked, obstacle),)
