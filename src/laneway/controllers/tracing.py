"""The agent's spans: each attempt to carry out what an object requests, its plan, its steps.

Besides, there is one for each claim that is gone, from its deletion to the last that was done for
it; and for a layout one of each write to the objects below it, which links to their traces, and one
of each GPU that has become as the layout asks, or was refused.

An object that is in order has no span, however often it is looked at. The steps of a plan are told
once it has ended, from what the audit record has about it; so a plan that a killed agent began is
told by the one that recovers it, in the same trace.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence

from laneway.core.decision import Decision, refusals_of
from laneway.core.plan import Plan, SetBootArguments
from laneway.core.refusals import Refusal
from laneway.core.requested import Origin
from laneway.core.tracing import Attribute, Span, SpanId, Tracer, about, root
from laneway.host.plans.audit import Ended, Entry

_FAILED = ("failed", "left over")


class Attempt:
    """One attempt of a node's agent for an object. Without a tracer, nothing is told of it."""

    def __init__(self, tracer: Tracer | None, node: str, origin: Origin) -> None:
        self.origin = origin
        """For the plan of this attempt."""
        self._tracer = tracer
        self._node = node
        self._began = time.time_ns()
        self._root = root(origin.uid, origin.generation)
        self._id = self._root.child("reconcile", node, self._began)
        if tracer is not None:
            self.origin = Origin(
                origin.kind, origin.name, origin.uid, origin.user, origin.generation, self._id.span
            )

    def planned(self, decision: Decision) -> None:
        """It is decided what is to be done; `ended` tells why not."""
        steps = len(decision.steps) if isinstance(decision, Plan) else 0
        more: dict[str, Attribute] = {"laneway.steps": steps}
        self._tell("plan", self._id.child("plan"), self._id.span, refusals_of(decision), more)

    def ended(self, refusals: Sequence[Refusal]) -> None:
        """Nothing more is done in this attempt."""
        self._tell(f"reconcile {self.origin.kind}", self._id, self._root.span, refusals, {})

    def _tell(
        self,
        name: str,
        span: SpanId,
        parent: int,
        refusals: Sequence[Refusal],
        more: dict[str, Attribute],
    ) -> None:
        if self._tracer is None:
            return
        attributes = _about(self.origin, self._node) | more
        if refusals:
            attributes["laneway.reason"] = refusals[0].reason
        error = " ".join(one.words for one in refusals)
        self._tracer(Span(span, parent, name, self._began, time.time_ns(), attributes, error))


def tell(
    tracer: Tracer | None,
    name: str,
    origin: Origin,
    node: str,
    began: int,
    *,
    links: tuple[SpanId, ...] = (),
    error: str = "",
    **more: Attribute,
) -> None:
    """A span right below the write of an object, which has just ended; `began` in nanoseconds."""
    if tracer is None:
        return
    above, ended = root(origin.uid, origin.generation), time.time_ns()
    attributes = _about(origin, node) | {f"laneway.{key}": value for key, value in more.items()}
    span = above.child(name, node, began, ended)
    tracer(Span(span, above.span, name, began, ended, attributes, error, links))


def nanoseconds(text: str) -> int:
    """An RFC 3339 time."""
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1e6) * 1000


def plan_spans(node: str, ended: Ended) -> Iterator[Span]:
    """A plan that has ended, and below it each step that this process or the one before did."""
    origin = ended.origin
    above = root(origin.uid, origin.generation) if origin.uid else root(ended.plan, 0)
    parent = above.span if origin.uid else 0
    if origin.span and not ended.recovered:  # the attempt of a killed agent was never told
        parent = origin.span
    span = above.child("carry out", ended.plan, ended.recovered)
    began = last = nanoseconds(ended.began)
    steps = []
    for number, entry in enumerate(ended.steps):
        # One step begins when the one before is done.
        until = max(last, nanoseconds(entry.time))
        steps.append(_step(span.child(number), span.span, entry, last, until))
        last = until
    attributes = _about(origin, node)
    attributes["laneway.plan"] = ended.plan
    attributes["laneway.outcome"] = ended.outcome
    if ended.recovered:
        attributes["laneway.recovered"] = True
    error = (ended.error or "closed") if ended.outcome == "closed" else ""
    yield Span(span, parent, "carry out", began, last, attributes, error)
    yield from steps


def _step(span: SpanId, parent: int, entry: Entry, began: int, ended: int) -> Span:
    attributes: dict[str, Attribute] = {
        "laneway.device": entry.device,
        "laneway.outcome": entry.outcome,
    }
    if not isinstance(entry.step, SetBootArguments):
        # Their words have the kernel command line, which may hold what is not for everybody.
        attributes["laneway.step"] = entry.words
    error = (entry.error or entry.outcome) if entry.outcome in _FAILED else ""
    name = type(entry.step).__name__ if entry.step is not None else "step"
    return Span(span, parent, name, began, ended, attributes, error)


def _about(origin: Origin, node: str) -> dict[str, Attribute]:
    found = about(origin.kind, origin.name, origin.uid, origin.generation) if origin.name else {}
    return found | {"k8s.node.name": node}
