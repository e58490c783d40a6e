"""Moves of VMs where the cluster cannot be read completely."""

from __future__ import annotations

from typing import Any

from laneway.changes.moving.all_moves import carry_out
from laneway.changes.moving.work import MovesListener, Seen, Work
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Leg, Move, Moves, Outcome

NOT_LISTED = "you may not list virtualmachines.kubevirt.io; what follows from them is not counted"
MOVE = Move("d/a", How.RESTART, "n1", "n2", (Leg("n1-1", "NVIDIA A2-8Q", "n1-gpu", "n2-gpu"),))
FOUND = Moves(Outcome.FOUND, 4, 0, (MOVE,), (("NVIDIA A2-16Q", "n1-gpu"),))


def work() -> Work:
    """Whatever is written or asked fails: there is no cluster."""
    nothing: Any = None

    async def look() -> Seen:
        return Seen(Fleet(unreadable=(NOT_LISTED,)), {})

    return Work(nothing, look, 1, MovesListener())


async def test_moves_end_before_the_first_that_is_judged_without_seeing_all() -> None:
    result = await carry_out(work(), FOUND, {"NVIDIA A2-16Q": 1})
    assert result.why == f"the cluster cannot be read completely: {NOT_LISTED}"
    assert (result.done, result.failed, result.left) == ((), None, FOUND.moves)
