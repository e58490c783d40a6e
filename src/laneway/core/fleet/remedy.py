"""Which moves of VMs would make a no a yes, where the question is small enough to search for them.

All VMs of the question are wanted at once, those that have a place as well, for a move must not
take it from them. Each is to request one vGPU and may be on any node, because `least_moves` places
vGPUs one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from laneway.core.fleet import board, resources
from laneway.core.fleet.changes import Change, carried_out
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.moves import EFFORT, Moves, least_moves
from laneway.core.fleet.what_if import Answer

MOST_WANTED = 8
"""VMs for which moves are looked for together."""


def moves_for(
    fleet: Fleet,
    changes: Iterable[Change],
    answer: Answer,
    effort: int = EFFORT,
    *,
    restart: bool = False,
) -> Moves | None:
    """The moves after which all VMs of a question fit; None: they are not looked for.

    `restart`: running VMs that cannot be migrated may be restarted.
    """
    names = [*(one.vm for one in answer.placed), *(one.vm for one in answer.refused)]
    if not answer.refused or answer.unchangeable or len(names) > MOST_WANTED:
        return None
    after = carried_out(fleet, changes).fleet
    vms = {vm.name: vm for vm in after.vms}
    profiles = board.by_resource(after) | resources.mig_backed(after)
    wanted: Counter[str] = Counter()
    for name in names:
        vm = vms[name]
        [resource, *others] = vm.requests
        if others or vm.selector or vm.requests[resource] != 1 or resource not in profiles:
            return None
        wanted[profiles[resource]] += 1
    return least_moves(after, wanted, effort=effort, restart=restart)
