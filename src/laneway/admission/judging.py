"""From a question to its answer: reads the objects, checks rights, has the rules judge.

Every question gets an answer, whatever is wrong with it. What cannot be read or judged is refused
where the kind is Laneway's, because nothing but Laneway reads such an object, and where it requests
devices (`unjudged`). Anything else is allowed with a warning: a VM must not depend on
what Laneway makes of it. An exception out of a rule is a defect, and treated the same way; its
traceback goes to the log.

Two exceptions let people mend what is broken. An object that cannot be read may be deleted, for
Laneway has carried nothing of it out; and an update of one is judged as the creation that it is to
a reader that could not decode what was there before.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, NamedTuple

import msgspec

from laneway.admission.access import AccessReviews
from laneway.admission.fair_queue import FairQueue
from laneway.admission.json_patch import PatchOperation
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.request import Operation, Request
from laneway.admission.review import Answer, Question
from laneway.admission.tracing import review_span
from laneway.admission.unjudged import is_guarded
from laneway.admission.verdict import Rules, everything
from laneway.admission.vms import number
from laneway.admission.wording import About, Cause, Denial, denial
from laneway.admission.world import World
from laneway.api import DecodeError, decode
from laneway.core.phrases import quoted
from laneway.core.tracing import Tracer
from laneway.kube.resource import T

log = logging.getLogger(__name__)

UNREADABLE = "ObjectUnreadable"
FAILED = "InternalError"
"""Reasons of refusals that no rule gives."""
CATCH_UP_SECONDS = 0.5
"""So long a judgement waits for what an object refers to."""
_LOOK_SECONDS = 0.02
OTHER = "other"
"""The label of what there are no rules for."""


class Change(NamedTuple):
    """What a mutation makes of an object."""

    operations: Sequence[PatchOperation] = ()
    """A JSON patch."""
    warnings: Sequence[str] = ()


Mutate = Callable[[Question, World], Change]
"""Pure. Raises DecodeError where the object cannot be read, and nothing else."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What is done with the objects of one kind."""

    name: str
    type: builtins.type[T]
    rules: Rules[T]
    mutate: Mutate | None = None
    foreign: bool = False
    """Whether it is another product's, and passes where Laneway cannot judge it (`unjudged`)."""
    asks_for_devices: bool = False
    """Whether its objects request devices, in a number that is limited."""
    lenient: bool = False
    """Whether a write passes, with warnings, while rights of its requester cannot be checked."""
    reported_as: str = ""
    """A group, if refusals of this kind are worded as its own controller words them."""


AnyKind = Kind[Any]
Kinds = Mapping[tuple[str, str], AnyKind]
"""By group and resource, `machinesets` or `machinesets/scale`."""
_Judge = Callable[[AnyKind, Operation, Question], Awaitable[Answer]]


class Judged(NamedTuple):
    """An answer, and how to count it."""

    answer: Answer
    kind: str
    operation: str
    outcome: Outcome


class Judging:
    """Answers questions about the kinds that it is given."""

    def __init__(
        self,
        kinds: Kinds,
        world: World,
        access: AccessReviews,
        metrics: AdmissionMetrics,
        fair_queue: FairQueue | None = None,
        *,
        tracer: Tracer | None = None,
    ) -> None:
        """Everything here is computed in a turn of `fair_queue`."""
        self._tracer = tracer
        self._kinds = kinds
        self._fair_queue = fair_queue or FairQueue()
        self._world = world
        self._access = access
        self._metrics = metrics

    async def validate(self, question: Question) -> Judged:
        """Whether the write may happen."""
        began = time.time_ns()
        judged = await self._judged(question, self._validated)
        if self._tracer is not None:
            self._trace(self._tracer, question, judged, began)
        return judged

    async def mutate(self, question: Question) -> Judged:
        """What is to be changed about the object before it is judged."""
        return await self._judged(question, self._mutated)

    async def _judged(self, question: Question, judge: _Judge) -> Judged:
        part = f"{question.resource}/{question.subresource}"
        kind = self._kinds.get((question.group, part)) if question.subresource else None
        is_judged = kind is not None or not question.subresource
        if kind is None:
            kind = self._kinds.get((question.group, question.resource))
        if kind is None:
            what = f"{quoted(question.resource)} of {quoted(question.group)}"
            warning = (
                f"Laneway has no rules for {what}, so all of them pass. The configuration of its "
                "webhooks selects too much."
            )
            return Judged(Answer(warnings=(warning,)), OTHER, OTHER, Outcome.ALLOWED)
        try:
            operation = Operation(question.operation)
        except ValueError:
            return Judged(Answer(), kind.name, OTHER, Outcome.ALLOWED)
        if not is_judged:
            return Judged(Answer(), kind.name, operation, Outcome.ALLOWED)
        try:
            async with self._turn(question):
                answer = self._refused_at_once(kind, operation, question)
            if answer is None:
                answer = await judge(kind, operation, question)
            outcome = Outcome.REFUSED if answer.denial else Outcome.ALLOWED
        except DecodeError as error:
            answer = _unreadable(kind, operation, question, error)
            outcome = Outcome.UNREADABLE
        except Exception:
            log.exception("a rule of %s failed on %s", kind.name, _title(question))
            answer, outcome = _failed(kind, question), Outcome.FAILED
        self._tell(kind, operation, question, answer)
        return Judged(answer, kind.name, operation, outcome)

    @staticmethod
    def _trace(tracer: Tracer, question: Question, judged: Judged, began: int) -> None:
        denial = judged.answer.denial
        refusal = denial.message if denial is not None else ""
        span = review_span(
            question, judged.kind, judged.outcome, refusal, began=began, ended=time.time_ns()
        )
        if span is not None:
            tracer(span)

    def _turn(self, question: Question) -> contextlib.AbstractAsyncContextManager[None]:
        return self._fair_queue.turn(question.peer, question.requester.username)

    @staticmethod
    def _refused_at_once(kind: AnyKind, operation: Operation, question: Question) -> Answer | None:
        """A refusal of what would take too long to judge."""
        if not kind.asks_for_devices or operation is Operation.DELETE:
            return None
        refusal = number.refused(question.object, question.old_object)
        return None if refusal is None else Answer(denial([refusal]))

    async def _validated(self, kind: AnyKind, operation: Operation, question: Question) -> Answer:
        async with self._turn(question):
            request = read_request(kind.type, operation, question)
        await self._caught_up(kind, request)
        async with self._turn(question):
            asked = frozenset(kind.rules.asks(request, self._world))
        rights = await self._access.granted(request.requester, asked)
        async with self._turn(question):
            verdict = kind.rules.judge(request, self._world, rights.granted)
        if rights.warnings and kind.lenient:
            verdict = verdict.as_warnings()
        if not verdict.refusals:
            return Answer(warnings=(*verdict.warnings, *rights.warnings))
        about = About(request.name, kind.reported_as, kind.name) if kind.reported_as else None
        # A refused write has no warnings about its effects.
        return Answer(denial(verdict.refusals, about), rights.warnings)

    async def _caught_up(self, kind: Kind[T], request: Request[T]) -> None:
        """Wait until it is known what is spoken of, or until it seems not to exist."""
        end = time.monotonic() + CATCH_UP_SECONDS
        while not kind.rules.knows(request, self._world) and time.monotonic() < end:  # noqa: ASYNC110 - a world tells what it knows, not when
            await asyncio.sleep(_LOOK_SECONDS)

    async def _mutated(self, kind: AnyKind, operation: Operation, question: Question) -> Answer:
        if kind.mutate is None or operation is Operation.DELETE:
            return Answer()
        if kind.rules.knows is not everything:
            # What cannot be read is the mutation's to tell of.
            with contextlib.suppress(DecodeError):
                request = read_request(kind.type, operation, question)
                await self._caught_up(kind, request)
        async with self._turn(question):
            change = kind.mutate(question, self._world)
        return Answer(warnings=change.warnings, patch=change.operations)

    def _tell(self, kind: AnyKind, operation: str, question: Question, answer: Answer) -> None:
        self._metrics.warned(len(answer.warnings))
        if answer.denial is None:
            return
        reasons = [cause.reason for cause in answer.denial.causes]
        self._metrics.refused(reasons)
        log.info(
            "refused %s of %s %s: %s",
            operation,
            kind.name,
            _title(question),
            answer.denial.message.replace("\n", " "),
            extra={"username": question.requester.username, "reasons": reasons},
        )


def read_request(cls: type[T], operation: Operation, question: Question) -> Request[T]:
    """The question with its objects decoded. Raises DecodeError."""
    new = old = None
    if operation is Operation.DELETE:
        found = old = decode(cls, _there(cls, question.old_object))
    else:
        found = new = decode(cls, _there(cls, question.object))
        if operation is Operation.UPDATE:
            try:
                old = decode(cls, _there(cls, question.old_object))
            except DecodeError:
                operation = Operation.CREATE
    return Request(
        operation=operation,
        name=question.name or found.metadata.name,
        namespace=question.namespace,
        requester=question.requester,
        old=old,
        new=new,
        dry_run=question.dry_run,
    )


def _there(cls: type[T], raw: msgspec.Raw | None) -> msgspec.Raw:
    if raw is None:
        raise DecodeError(f"{cls.__name__}: there is no object in the review")
    return raw


def _unreadable(kind: AnyKind, operation: str, question: Question, error: DecodeError) -> Answer:
    words = f"{kind.name} {quoted(_title(question))} cannot be read: {error}."
    if operation == Operation.DELETE or _may_pass(kind, question):
        return Answer(warnings=(f"{words} Laneway has not checked it.",))
    words = f"{words} Correct it, or delete it and create it again."
    causes = (Cause(UNREADABLE, words),)
    return Answer(Denial(HTTPStatus.BAD_REQUEST, "BadRequest", words, causes))


def _may_pass(kind: AnyKind, question: Question) -> bool:
    """Whether what was not judged may be written all the same."""
    new, old = question.object, question.old_object
    return kind.foreign and not is_guarded(new, old, devices=kind.asks_for_devices)


def _failed(kind: AnyKind, question: Question) -> Answer:
    words = (
        "Laneway could not check this because of a defect in Laneway. Its webhook has logged the"
    )
    if _may_pass(kind, question):
        return Answer(warnings=(f"{words} cause. The write passed unchecked.",))
    words = f"{words} cause. Nothing was written."
    return Answer(Denial(HTTPStatus.FORBIDDEN, "Forbidden", words, (Cause(FAILED, words),)))


def _title(question: Question) -> str:
    name = question.name or "(no name yet)"
    return f"{question.namespace}/{name}" if question.namespace else name
