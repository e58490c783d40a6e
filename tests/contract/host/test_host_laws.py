"""Whatever is desired of a host, in any order, whatever happens meanwhile and goes wrong.

Each life is a simulated host with virtual machines that come and go, desired states of every kind,
faults of every kind, and processes that are killed and succeeded. After every desired state the
laws hold:

- it is fulfilled, refused with words, or failed with words; nothing else, and it comes to an end;
- without a fault it does not fail, and once fulfilled it is fulfilled when looked at again;
- a refusal changed nothing; after a failure all is as before, or what is not is named;
- a killed process is recovered to where an uninterrupted one went, or to where it came from;
- what is in use was not written to, and is what it was;
- no journal remains, and every write that hardware took is in the audit record.

`LANEWAY_LAWS` is how many lives are lived; a failure prints how to live the same one again.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings

from laneway.core.refusals import (
    ResetFailed,
)
from laneway.host.plans.audit import Entry
from laneway.host.plans.recover import recover
from support.examples import many
from support.host_lives import LIMITS, Life, Turn, differs, picture, stories
from support.plans import audited

LIVES = int(os.environ.get("LANEWAY_LAWS", many(30)))


async def lived(model: str, story: list[Turn], folder: str) -> None:
    life = Life(model, f"{folder}/life")
    for index, turn in enumerate(story):
        seen = len(life.changes), len(lines_of(life))
        before = picture(life.hardware)
        desired, end, pictures = await life.live(turn)
        context = (index, desired.text, end, life.said[-1:])
        if end == "killed":
            await life.calm()
            life.successor(finish=turn.fault.detail % 2 == 0)
            recovered = await recover(life.hardware, actor="next", limits=LIMITS)
            assert len(recovered) <= 1, context
            context += (recovered,)
            await put_right(life, Tale(model, story[:index], before, folder), turn, context)
        elif end == "failed":
            error, after = pictures[-1]
            allowed = turn.fault.kind not in ("none", "late") or turn.joins
            assert allowed, (*context, "a plan failed though nothing went wrong")
            exact = turn.fault.kind != "block" and not error.left_over
            if exact and not isinstance(error.refusal, ResetFailed):
                assert after == pictures[-2], (*context, differs(pictures[-2], after))
        await life.calm()
        assert life.hardware.state.interrupted() == [], context
        check_held(life, context)
        check_audit(life, *seen, context)
        if end != "refused" and turn.fault.kind != "block":
            # At rest it is reached, or refused, at once or after what the failure left.
            again, _ = await life.fulfil(desired)
            assert again in ("satisfied", "refused"), (*context, again, life.said[-1:])
            if end == "satisfied":
                assert again == "satisfied", context
            check_held(life, context)
    while life.held:
        life.end(0)


class Tale(NamedTuple):
    """How a life came to the desired state at which its process was killed."""

    model: str
    past: list[Turn]
    before: Any
    folder: str


async def put_right(life: Life, tale: Tale, turn: Turn, context: tuple[Any, ...]) -> None:
    """After a kill and recovery, all is as before or as after one of the plans of a twin's life."""
    past = tale.past
    if turn.joins or any(one.fault.kind in ("block", "kill") or one.joins for one in past):
        return
    twin = Life(tale.model, f"{tale.folder}/twin{len(past)}")
    for one in past:
        desired, end, _ = await twin.live(one)
        await twin.calm()
        if end != "refused":
            await twin.fulfil(desired)
    _, end, pictures = await twin.live(turn, fault=False)
    assert end == "satisfied", (*context, "the twin", end)
    now = picture(life.hardware)
    stages = [tale.before, *pictures]
    assert now in stages, (*context, [differs(one, now) for one in stages])
    for held in twin.held:
        held.holder.release()


def check_held(life: Life, context: tuple[Any, ...]) -> None:
    assert not life.touched, (*context, life.touched)
    for held in life.held:
        assert life.shown(held.function) == held.was, (*context, held)


def lines_of(life: Life) -> list[Entry]:
    return audited(life.hardware) if os.path.exists(life.hardware.state.audit) else []


def check_audit(life: Life, changes: int, entries: int, context: tuple[Any, ...]) -> None:
    """Each write that changed something has a line of its own about its device."""
    lines = [entry for entry in lines_of(life)[entries:] if entry.step is not None]
    for change in life.changes[changes:]:
        text = f"{change.path} {change.data} {' '.join(change.argv)}"
        about = (one for one in lines if one.device in text or uuid_of(one.step) in text)
        entry = next(about, None)
        assert entry is not None, (*context, change)
        if context[2] != "killed":  # what the kernel did for the dead is reported once, with ours
            lines.remove(entry)


def uuid_of(step: Any) -> str:
    """What else than its device's name tells that a write belongs to a step."""
    return getattr(step, "uuid", "") or f"/{getattr(step, 'bus', 0):03d}/"


@pytest.mark.timeout(0 if "LANEWAY_LAWS" in os.environ else 600)  # a failure is made smaller
@settings(
    max_examples=LIVES,
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stories)
def test_the_laws_hold_in_every_life(story: tuple[str, list[Turn]]) -> None:
    model, reported = story
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(lived(model, reported, folder))
