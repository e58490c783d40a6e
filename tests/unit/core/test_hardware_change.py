"""What an event has room for, and that it is read back as it was meant."""

from __future__ import annotations

import msgspec
import pytest

from laneway.core import keys
from laneway.core.hardware_change import (
    MOST_BYTES,
    MOST_CHARACTERS,
    HardwareChange,
    StepChange,
    message,
    read,
    written,
)

KEY = keys.ANNOTATION_HARDWARE_CHANGE


def change(*steps: StepChange, outcome: str = "finished", **more: str) -> HardwareChange:
    return HardwareChange(
        plan="plan-1", outcome=outcome, actor="laneway agent", user="anna", steps=steps, **more
    )


def done(words: str, **more: str) -> StepChange:
    return StepChange(words, "done", **more)


def test_a_change_is_read_back_as_it_was_written() -> None:
    one = change(done("create 16 virtual functions", device="0000:08:00.0", before="0", after="16"))
    assert read({KEY: written(one)}) == msgspec.structs.replace(one, steps=list(one.steps))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"plan": 1}', '{"plan":"x"}', "[" * 5000])
def test_what_is_damaged_says_nothing(text: str) -> None:
    assert read({KEY: text}) is None
    assert read({}) is None


def test_steps_that_find_no_room_are_counted() -> None:
    long = change(*(done(f"step {n} {999 * 'x'}", before=999 * "ü") for n in range(100)))
    text = written(long)
    found = read({KEY: text})
    assert found is not None
    assert len(text.encode()) <= MOST_BYTES
    assert found.steps
    assert len(found.steps) + found.more == 100
    assert len(message(long)) <= MOST_CHARACTERS


def test_the_message_has_a_sentence_for_each_outcome() -> None:
    assert message(change(*(done(f"s{n}") for n in range(8)))) == (
        "By laneway agent for anna: s0; s1; s2; s3; s4; s5; and 2 more steps."
    )
    failed = change(
        done("a"),
        StepChange("b", "failed", error="No space left (ENOSPC)\n"),
        StepChange("a", "undone"),
        outcome="closed",
        error="No space left (ENOSPC)",
    )
    assert message(failed) == (
        "By laneway agent for anna: a. Failed: b: No space left (ENOSPC) . Undone: a."
    )
    left = change(done("a"), outcome="closed", error="the node was booted since")
    assert message(left).endswith("a. the node was booted since.")


def test_a_recovered_plan_says_so() -> None:
    one = msgspec.structs.replace(change(done("a")), recovered=True)
    assert message(one) == "An interrupted plan was ended for anna. Steps: a."
