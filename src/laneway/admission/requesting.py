"""Notes on an object which user changed its desired state last (`core.requested`).

The note changes with the desired state only, and is then the requester's, whatever a client sent.
A client that writes the note alone, or leaves it out, finds it as it was. Laneway's own accounts
write desired states for a reason that is a user's elsewhere, so theirs are stored as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from laneway.admission.json_patch import PatchOperation, put, remove
from laneway.admission.judging import Change, Mutate
from laneway.admission.review import Question
from laneway.admission.world import World
from laneway.api import decode, timestamp
from laneway.core import keys
from laneway.core.raw import Json, JsonObject, at
from laneway.core.requested import written

_NOTE = ("metadata", "annotations", keys.ANNOTATION_REQUESTED_BY)
DECISIVE = (keys.ANNOTATION_SKIP_BINDING, keys.ANNOTATION_SKIP_MIG)
"""Annotations that decide with the spec what is done to hardware."""


def _now() -> datetime:
    return datetime.now(UTC)


def noting(mutate: Mutate | None = None, *, clock: Callable[[], datetime] = _now) -> Mutate:
    """A mutation that also notes who requests the desired state."""

    def mutated(question: Question, world: World) -> Change:
        change = Change() if mutate is None else mutate(question, world)
        if question.requester.username in world.trusted or question.object is None:
            return change
        new = decode(dict[str, Json], question.object)
        old = None
        if question.old_object is not None:
            old = decode(dict[str, Json], question.old_object)
        note = _note(question.requester.username, new, old, clock)
        return Change((*change.operations, *_operations(new, note)), change.warnings)

    return mutated


def _note(
    username: str, new: JsonObject, old: JsonObject | None, clock: Callable[[], datetime]
) -> str:
    if old is not None and _desired(new) == _desired(old):
        before = at(old, _NOTE)
        return before if isinstance(before, str) else ""
    return written(username, timestamp(clock()))


def _desired(raw: JsonObject) -> tuple[Json, ...]:
    return (raw.get("spec"), *(at(raw, ("metadata", "annotations", key)) for key in DECISIVE))


def _operations(raw: JsonObject, note: str) -> Iterator[PatchOperation]:
    said = at(raw, _NOTE)
    if note and note != said:
        yield put(raw, _NOTE, note)
    elif said is not None and not note:
        yield remove(_NOTE)
