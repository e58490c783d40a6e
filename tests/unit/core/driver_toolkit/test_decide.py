"""What a container does to a node for one driver, and what the node remembers."""

from __future__ import annotations

import pytest

from laneway.core.driver_toolkit.decide import decide
from laneway.core.driver_toolkit.state import Driver, State, answered, began, fallback, kept

OLD, NEW = Driver("550.1.1", "aa"), Driver("570.1.1", "bb")
REPACKED = Driver("570.1.1", "cc")


@pytest.mark.parametrize(
    ("version", "loaded", "held", "action"),
    [
        ("", None, False, "install"),
        ("", OLD, False, "install"),  # unloaded by hand
        ("570.1.1", NEW, True, "attach"),
        ("570.1.1", NEW, False, "attach"),
        ("570.1.1", REPACKED, False, "replace"),
        ("550.1.1", OLD, True, "replace"),
        ("550.1.1", NEW, False, "replace"),  # loaded by hand
        ("570.1.1", None, False, "replace"),  # it may be half there
        ("570.1.1", None, True, "attach"),  # taken over from Harvester's toolkit, in use
        ("550.1.1", None, True, "replace"),
    ],
)
def test_modules_that_are_the_right_ones_stay(
    version: str, loaded: Driver | None, held: bool, action: str
) -> None:
    assert decide(NEW, version, loaded, held=held) == action


def test_what_was_loaded_in_another_boot_is_not_loaded() -> None:
    state = State(stage="Ready", serving=OLD, loaded=OLD, boot="1", last=OLD)

    assert began(state, NEW, "1", "6.1").loaded == OLD
    assert began(state, NEW, "2", "6.1").loaded is None
    assert began(state, NEW, "1", "6.1").serving is None


def test_the_driver_before_is_what_to_go_back_to() -> None:
    state = began(State(), OLD, "1", "6.1")
    assert fallback(state) is None

    state = began(answered(state, OLD), NEW, "1", "6.1")
    assert fallback(state) == OLD
    assert kept(state) == {"aa", "bb"}

    state = answered(state, NEW)
    assert (state.last, state.previous, fallback(state)) == (NEW, OLD, OLD)
    # A container that starts again does not forget it.
    assert answered(began(state, NEW, "2", "6.1"), NEW).previous == OLD


def test_after_going_back_both_are_still_known() -> None:
    state = answered(answered(began(State(), OLD, "1", "k"), OLD), NEW)
    state = answered(began(state, OLD, "1", "k"), OLD)

    assert (state.last, state.previous) == (OLD, NEW)
