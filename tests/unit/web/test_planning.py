"""What the planner keeps of sessions is bounded, and goes with them."""

from __future__ import annotations

import gc

from laneway.core.fleet.model import Fleet
from laneway.web.planning import Own, Planning, Uploaded


def a_file(name: str, size: int = 40) -> Uploaded:
    return Uploaded(name, size, Fleet())


def test_a_session_has_one_file_at_a_time() -> None:
    planning, own = Planning(100), Own()
    planning.keep(own, a_file("first", 90))
    planning.keep(own, a_file("second", 90))
    assert planning.use(own) == a_file("second", 90)


def test_the_one_that_was_not_used_for_longest_makes_room() -> None:
    planning, owners = Planning(100), [Own(), Own(), Own()]
    planning.keep(owners[0], a_file("a"))
    planning.keep(owners[1], a_file("b"))
    planning.use(owners[0])
    planning.keep(owners[2], a_file("c"))
    assert [one.uploaded is not None for one in owners] == [True, False, True]


def test_what_belonged_to_a_session_that_is_gone_counts_no_more() -> None:
    planning, gone, own = Planning(100), Own(), Own()
    planning.keep(gone, a_file("a", 90))
    del gone
    gc.collect()
    planning.keep(own, a_file("b"))
    other = Own()
    planning.keep(other, a_file("c", 50))
    assert own.uploaded is not None
