"""What an object's stored answer proves about its spec, and the answers that all families share.

The last answer is the journal: it says what a desired state was made in view of. What runs may be
taken away only for a desired state that is made in view of it and that is not answered yet.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from laneway.api import Condition, find_condition
from laneway.controllers.devices.family import DeviceObject, ready
from laneway.core.phrases import sentences
from laneway.core.plan import Plan
from laneway.core.reasons.former import renamed
from laneway.core.refusals import Refusal, WriteFailed, reason_of
from laneway.core.words import describe

IN_PROGRESS = "InProgress"
"""Reason of the Ready condition while a plan is carried out."""
LONGEST_TEXT = 4000
"""Of an answer, in characters."""


class Answers(msgspec.Struct, frozen=True):
    """The reasons of one family's answers that say something about a desired state."""

    settled: Collection[str]
    """After these nothing is left to be done for the desired state."""
    absent: Collection[str]
    """These are given only to objects that request nothing to be there."""


def explicit(
    stored: DeviceObject, answers: Answers, *, asks: bool, seen: bool, ours: bool = True
) -> bool:
    """Whether the object requests what runs to be taken away.

    An object that was never answered proves no desired state: it may come from a backup, written
    while something else was here. One that requested nothing then and requests nothing now does not
    either, whatever else changed in it. Any other desired state speaks of what the last answer
    shows, or of what an attempt made that was interrupted before it could be answered.

    `asks`: for something to be there. `seen`: the last answer shows what runs. `ours`: what runs
    could be what an interrupted attempt made.
    """
    answer = find_condition(stored.status.conditions, "Ready")
    if answer is None or stored.status.observed_generation == 0:
        return False
    if stored.status.observed_generation != stored.metadata.generation:
        made = ours and answer.reason == IN_PROGRESS
        return (seen or made) and (asks or renamed(answer.reason) not in answers.absent)
    return renamed(answer.reason) not in answers.settled and seen


def being_done(plan: Plan) -> Condition:
    """The answer while a plan is carried out; stored before it begins, so that a restart knows."""
    steps = "; ".join(describe(step) for step in plan.steps)
    return ready(IN_PROGRESS, f"In progress: {steps}.", status=False)


def refused(refusals: tuple[Refusal, ...]) -> Condition:
    """The answer that everything which speaks against the desired state makes together."""
    return ready(refusals[0].reason, in_words(refusals), status=False)


def in_words(refusals: tuple[Refusal, ...]) -> str:
    """All refusals as one text, which is no longer than an object can carry.

    There are as many as there are mistakes in a desired state, and they quote the spec.
    """
    texts: list[str] = []
    left = LONGEST_TEXT
    for number, refusal in enumerate(refusals):
        words = refusal.words
        left -= len(words) + 1
        if left < 0 and texts:
            return sentences(*texts, f"Further reasons: {len(refusals) - number}.")
        texts.append(words if left >= 0 else f"{words[: LONGEST_TEXT - 1]}…")
    return sentences(*texts)


def begun(stored: DeviceObject) -> bool:
    """Whether the stored status tells already that the present spec is being carried out."""
    return _answer(stored) in (IN_PROGRESS, reason_of(WriteFailed))


def answered(stored: DeviceObject, refusals: tuple[Refusal, ...]) -> bool:
    """Whether the present desired state has been refused with this reason already."""
    return _answer(stored) == refusals[0].reason


def _answer(stored: DeviceObject) -> str:
    """Reason of the answer to the present desired state; empty while there is none."""
    answer = find_condition(stored.status.conditions, "Ready")
    if answer is None or answer.observed_generation != stored.metadata.generation:
        return ""
    return renamed(answer.reason)
