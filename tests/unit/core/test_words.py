"""Steps and refusals in words, and every step with the step that takes it back."""

from __future__ import annotations

import typing
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.core.plan import LoadModule, Plan, Probe, ResetFunction, Step, subject, undo
from laneway.core.refusals import DeviceHeld, DriverMissing, Refusal, WriteFailed
from laneway.core.words import describe

NAMES = st.text("abcdefgh-", min_size=1, max_size=12)
ADDRESSES = st.builds(
    PciAddress, st.just(0), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)
)


def of_type(hint: object) -> st.SearchStrategy[typing.Any]:
    """Values of a field; texts are names."""
    if hint is str:
        return NAMES
    if hint is PciAddress:
        return ADDRESSES
    if typing.get_origin(hint) is tuple:
        inner, *more = get_args(hint)
        if more == [...]:
            return st.lists(of_type(inner), max_size=3).map(tuple)
        return st.tuples(of_type(inner), *map(of_type, more))
    return st.from_type(hint)  # type: ignore[arg-type]


def built(kind: type) -> st.SearchStrategy[typing.Any]:
    hints = typing.get_type_hints(kind)
    fields = kind.__struct_fields__  # type: ignore[attr-defined]
    return st.builds(kind, **{name: of_type(hints[name]) for name in fields})


STEPS = st.one_of([built(kind) for kind in get_args(Step)])


@given(STEPS)
def test_every_step_has_words_that_name_its_device(step: Step) -> None:
    words = describe(step)
    assert subject(step) in words
    assert words[0].islower()
    assert "  " not in words


@given(STEPS)
def test_what_takes_a_step_back_is_taken_back_by_the_step(step: Step) -> None:
    reverse = undo(step)
    if reverse is None:
        assert isinstance(step, LoadModule | ResetFunction) or step == Probe(step.function, "")
    else:
        assert undo(reverse) == step


@given(st.lists(STEPS, max_size=4))
def test_a_plan_survives_being_written_down(steps: list[Step]) -> None:
    plan = Plan(tuple(steps), ("and more",))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@pytest.mark.parametrize("kind", Refusal.__subclasses__(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_refusal_is_one_line(kind: type[Refusal], data: st.DataObject) -> None:
    refusal = data.draw(built(kind))
    words = refusal.words
    assert refusal.reason == kind.__name__
    assert words.isprintable()
    assert "  " not in words
    assert "None" not in words


def test_the_remedy_names_the_command() -> None:
    said = DriverMissing("0000:08:00.0", "vfio-pci", "nvidia").words
    assert said.endswith("laneway host release 0000:08:00.0")
    assert "has no driver" in DriverMissing("0000:08:00.0", "", "nvidia").words
    assert "is on driver ice" in DriverMissing("0000:08:00.0", "ice", "nvidia").words


def test_what_is_left_over_is_told() -> None:
    assert "undone" not in WriteFailed("reset it", "no (EIO)").words
    left = WriteFailed("reset it", "no (EIO)", ("this", "that")).words
    assert left == "Could not reset it: no (EIO). These steps could not be undone: this; that."


def test_every_user_is_named() -> None:
    assert DeviceHeld("x", ("one", "two")).words == "x is in use: one; two. End that use first."
