"""A review as the first span of the trace of what it lets be written.

Only the validation is told, and only of a new desired state: there alone the object has the uid and
the generation that it will be stored with. A deletion is told the first time that it is asked for.
A review that refuses stands in a trace of its own, because nothing was written for the rest to
follow from. Dry runs are not told.
"""

from __future__ import annotations

import msgspec

from laneway.admission.metrics import Outcome
from laneway.admission.review import Question
from laneway.core.tracing import DELETION, Span, SpanId, about, root


class _Meta(msgspec.Struct, frozen=True):
    uid: str | None = None
    name: str | None = None
    generation: int | None = None
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode = msgspec.json.Decoder(_Object).decode


def review_span(
    question: Question, kind: str, outcome: Outcome, refusal: str, *, began: int, ended: int
) -> Span | None:
    """The span of a review; None for one that is not told. Times are nanoseconds since 1970."""
    new, old = _meta(question.object), _meta(question.old_object)
    if question.operation == "DELETE":
        meta, generation, is_new = old, DELETION, not old.deletion_timestamp
    elif question.operation in ("CREATE", "UPDATE") and new.generation:
        meta, generation, is_new = new, new.generation, new.generation != old.generation
    else:
        return None
    if question.dry_run or question.subresource or not meta.uid or not is_new:
        return None
    attributes = about(
        kind,
        question.name or meta.name or "",
        meta.uid,
        generation,
        operation=question.operation,
        outcome=str(outcome),
    )
    if question.namespace:
        attributes["k8s.namespace.name"] = question.namespace
    refused = outcome is not Outcome.ALLOWED
    span: SpanId = root(question.uid if refused else meta.uid, generation)
    return Span(span, 0, f"admission {kind}", began, ended, attributes, refusal)


def _meta(raw: msgspec.Raw | None) -> _Meta:
    try:
        return _decode(raw).metadata if raw is not None else _Meta()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Meta()
