"""How many more vGPUs of each profile a GPU takes in addition to those that it carries.

Each profile is counted for itself: making one vGPU changes what is left of all others. Whether a
profile can be made at all the driver says, on every free function; only the number is worked out
here, by the rules of the mode that the card is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import VgpuFunction
from laneway.core.mig.homes import homes
from laneway.core.mig.profiles import per_instance, serving
from laneway.core.pci import PciFunction
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.placement import Carried, are_mixed, carried_on, most
from laneway.core.vgpu.profiles import profile


def still_fits(
    gpu: PciFunction, functions: Iterable[VgpuFunction], modes: GpuModes
) -> dict[str, int]:
    """How many more of each profile could be made now, by name, those with none included.

    `functions`: of this GPU. Empty while the GPU has no functions to carry a vGPU. Mediated devices
    that are not in use report no placement, so with them, in mixed sizes, it is how many at the
    most.
    """
    left, _ = _counts(gpu.device, gpu.subsystem_device, tuple(functions), modes)
    return dict(left)


def room(
    name: str, gpu: PciFunction, functions: Iterable[VgpuFunction], modes: GpuModes
) -> tuple[int, int]:
    """How many more of a profile could be made now, and how many if the GPU carried nothing."""
    left, most_of = _counts(gpu.device, gpu.subsystem_device, tuple(functions), modes)
    return left.get(name, 0), most_of.get(name, 0)


@lru_cache(maxsize=256)
def _counts(
    device: str, subsystem: str, functions: tuple[VgpuFunction, ...], modes: GpuModes
) -> tuple[dict[str, int], dict[str, int]]:
    """Left, and of how many."""
    free = [one for one in functions if one.configured is None]
    creatable = {kind.name for one in free for kind in one.creatable}
    carried = [one.configured for one in functions if one.configured]
    listed = {kind.name for one in functions for kind in one.supported} | creatable
    listed |= {one.type_name for one in carried} - {""}
    names = listed | {one.name for one in profiles_of(device, subsystem)} if functions else listed
    known = {name: one for name in names if (one := profile(name)) is not None}
    boards = {known[name].board for name in listed if name in known}
    mig = modes.mig or any(known[name].mig_backed for name in creatable if name in known)
    mine = {
        name
        for name, one in known.items()
        if one.mig_backed == bool(mig) and (not boards or one.board in boards)
    }
    if mig:
        all_of = {name: _in_instances(name, modes, ()) for name in mine}
        now = {name: _in_instances(name, modes, functions) for name in mine}
    else:
        card = card_of(device, listed or names)
        there = carried_on(functions)
        mixed = bool(modes.mixed_size) or are_mixed(card, there)
        as_mdevs = any(one.framework == "mdev" for one in functions)
        all_of = {name: _on_card(card, name, (), mixed=mixed, as_mdevs=as_mdevs) for name in mine}
        now = {name: _on_card(card, name, there, mixed=mixed, as_mdevs=as_mdevs) for name in mine}
    left = {
        name: min(len(free), max(1, now[name])) if name in creatable else 0 for name in sorted(mine)
    }
    return left, {name: min(len(functions), count) for name, count in all_of.items()}


def _on_card(
    card: Card, name: str, carried: tuple[Carried, ...], *, mixed: bool, as_mdevs: bool
) -> int:
    if name not in card.kinds:
        return 0
    count = most(card, carried, name, mixed=mixed)
    # mdev offers a profile while there are fewer vGPUs than its maximum in same-size mode, also
    # when the sizes are mixed.
    return min(count, max(0, card.kinds[name].maximum - len(carried))) if as_mdevs else count


def _in_instances(name: str, modes: GpuModes, functions: tuple[VgpuFunction, ...]) -> int:
    """Of a MIG-backed profile, in the GPU instances that exist."""
    found = serving(name, modes.profiles)
    if found is None:
        return 0
    vgpu, instance = found
    most_each = per_instance(vgpu, instance)
    there = homes(functions, modes)
    return sum(home.room(instance.name, vgpu.framebuffer_mib, most_each) for home in there)
