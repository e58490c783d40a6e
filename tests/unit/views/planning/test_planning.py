"""What an answer of the planner says."""

from __future__ import annotations

from laneway.core.fleet.changes import AddVms, Change, SetMode
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Leg, Move, Moves, Outcome, least_moves
from laneway.core.fleet.what_if import Answer, what_if
from laneway.views.planning import moves as move_words
from laneway.views.planning import what_if as words
from support.planning import Q24, half_used


def asked(fleet: Fleet, *changes: Change) -> Answer:
    return what_if(fleet, changes)


def test_an_answer_says_for_how_many_and_where() -> None:
    found = asked(half_used(2), AddVms(requests={Q24: 1}, count=3))
    assert words.headline(found) == "No: of 3 VMs there is room for 2."
    assert words.where(found.placed[0]) == (
        "node l40s-1: NVIDIA L40S-24Q on l40s-1-000001000, made"
    )
    assert list(words.no_room(found)) == [
        f"no room for new-3: 1 x {Q24}: 2 GPUs with too little free memory"
    ]
    assert [words.room(one) for one in found.left] == [f"room for {Q24}: 0, today 2"]
    assert words.headline(asked(half_used(2))) == "Yes: no VM waits or has to move."


def test_a_change_that_is_not_possible_is_no_lack_of_room() -> None:
    found = asked(half_used(1), SetMode(gpus=("l40s-1-000001000",), mode="MixedSize"))
    assert words.headline(found) == "No: not every change is possible."


def test_moves_are_told_in_their_order() -> None:
    found = least_moves(half_used(2), {"NVIDIA L40S-48Q": 1})
    assert move_words.headline(found) == "Yes, after 1 move. Fewer do not suffice."
    [move] = move_words.moves(found)
    assert move.startswith("reserve for the stopped d/")
    [place] = move_words.after(found)
    assert place.startswith("then room for L40S-48Q on l40s-")


def test_no_moves_is_told_otherwise_than_a_search_that_ended() -> None:
    none = least_moves(half_used(1), {"NVIDIA L40S-48Q": 1})
    assert move_words.headline(none) == "No: there is no room after 4 moves or fewer."
    ended = Moves(Outcome.UNDECIDED, 4, 1, stay={"d/1": "a pod cannot be moved"})
    assert move_words.headline(ended).startswith("Not known")
    assert list(move_words.proved(ended)) == ["proved: there is no room after 1 move or fewer"]
    assert list(move_words.staying(ended)) == ["not moved, as a pod cannot be moved: d/1"]


def test_a_restart_says_from_where_unless_the_vm_stays_on_its_node() -> None:
    legs = (Leg("v", "NVIDIA L40S-12Q", "n1-a", "n2-a"),)
    away = Move("d/a", How.RESTART, "n1", "n2", legs)
    assert move_words.move(away) == "restart d/a from node n1 to node n2: L40S-12Q to n2-a"
    near = Move("d/a", How.RESTART, "n1", "n1", legs)
    assert move_words.move(near) == "restart d/a on node n1: L40S-12Q to n2-a"
