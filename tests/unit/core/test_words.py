"""Steps in words, and every step with the step that takes it back."""

from __future__ import annotations

from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.plan import (
    LoadModule,
    Plan,
    Probe,
    ResetFunction,
    SetVfCount,
    Step,
    subject,
    undo,
)
from laneway.core.words import describe
from support.values import built

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
    elif isinstance(step, SetVfCount):
        # What was there before may be made again while the node uses the card.
        assert undo(reverse) == msgspec.structs.replace(step, used=True)
    else:
        assert undo(reverse) == step


@given(st.lists(STEPS, max_size=4))
def test_a_plan_survives_being_written_down(steps: list[Step]) -> None:
    plan = Plan(tuple(steps), ("and more",))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
