"""What a GPU that shares itself by time would still take once a layout is done.

The driver cannot be asked about a state that is not there yet, so the rules alone answer: vGPUs
that stay keep their places, new ones get those that the driver will choose, and each profile is
counted for itself in what is left then.
"""

from __future__ import annotations

from laneway.core.layout.plan import DesiredGpu
from laneway.core.layout.sliced import card, staying
from laneway.core.layout.view import View, lists_all, missing, shown_names, view_of
from laneway.core.packing.order import best_order
from laneway.core.pci import PciFunction
from laneway.core.situation import Situation
from laneway.core.vgpu.placement import Carried, carried_on, most
from laneway.core.vgpu.profiles import profile


def fits_afterwards(desired: DesiredGpu, gpu: PciFunction, situation: Situation) -> dict[str, int]:
    """How many more of each profile would fit; empty for a spec that is refused or needs MIG."""
    view = view_of(desired, gpu, situation)
    if any(one is None or one.mig_backed for one in map(profile, view.wanted)):
        return {}
    board = card(view)
    stay = staying(view)
    there = carried_on(stay)
    placed = best_order(board, there, missing(view, stay), mixed=desired.mixed_size)
    if placed is None:
        return {}
    there += tuple(Carried(one.profile, one.start) for one in placed)
    free = (len(view.functions) or gpu.total_vfs or 0) - len(there)
    return {
        name: max(0, min(free, most(board, there, name, mixed=desired.mixed_size)))
        for name in sorted(_offered(view) or board.kinds)
    }


def _offered(view: View) -> frozenset[str]:
    """What the driver can make of what the catalogue has; empty where it does not list all now."""
    listed = shown_names(view) if lists_all(view) else frozenset[str]()
    return frozenset(name for name in listed if (one := profile(name)) and not one.mig_backed)
