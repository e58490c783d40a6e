"""A review as the first span of the trace of what it lets be written.

Only the validation is told, and only of a new desired state: there alone the object has the uid and
the generation that it will be stored with. A review that refuses stands in a trace of its own,
because nothing was written for the rest to follow from. Deletions and dry runs are not told.
"""

from __future__ import annotations

import msgspec

from laneway.admission.metrics import Outcome
from laneway.admission.review import Question
from laneway.core.tracing import Span, SpanId, about, root


class _Meta(msgspec.Struct, frozen=True):
    uid: str | None = None
    name: str | None = None
    generation: int | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode = msgspec.json.Decoder(_Object).decode


def review_span(
    question: Question, kind: str, outcome: Outcome, refusal: str, *, began: int, ended: int
) -> Span | None:
    """The span of a review; None for one that is not told. Times are nanoseconds since 1970."""
    new, old = _meta(question.object), _meta(question.old_object)
    if question.dry_run or question.subresource or question.operation not in ("CREATE", "UPDATE"):
        return None
    if not new.uid or not new.generation or new.generation == old.generation:
        return None
    attributes = about(
        kind,
        question.name or new.name or "",
        new.uid,
        new.generation,
        operation=question.operation,
        outcome=str(outcome),
    )
    if question.namespace:
        attributes["k8s.namespace.name"] = question.namespace
    refused = outcome is not Outcome.ALLOWED
    span: SpanId = root(question.uid if refused else new.uid, new.generation)
    return Span(span, 0, f"admission {kind}", began, ended, attributes, refusal)


def _meta(raw: msgspec.Raw | None) -> _Meta:
    try:
        return _decode(raw).metadata if raw is not None else _Meta()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Meta()
