"""The audit record: every write to hardware, for whom it was made and why, before, after, outcome.

It is only ever added to, a line of JSON a step, and is never rotated, so that what happened to
a device is known years later. Lines of steps are not waited for on their way to the disk one
by one, but all are there when the line that closes their plan is. The lines of a plan's steps stay
in memory until it ends, for the event about it (`controllers.hardware_changes`).

A `Recorder` gets each line as well, for a second place, even where the file did not take
it. The file alone counts: it is written before hardware is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from laneway.core.plan import Step, subject
from laneway.core.requested import UNKNOWN, Origin
from laneway.core.words import describe
from laneway.host.plans import files
from laneway.host.plans.journal import Written

Outcome = Literal[
    "planned", "done", "found done", "failed", "undone", "left over", "finished", "closed"
]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line."""

    time: str
    plan: str
    actor: str
    reason: str
    outcome: Outcome
    object: str = ""
    """Whose desired state led to it."""
    device: str = ""
    words: str = ""
    step: Step | None = None
    before: str = ""
    after: str = ""
    error: str = ""


class Ended(NamedTuple):
    """A plan that has ended, with what became of its steps."""

    plan: str
    actor: str
    reason: str
    origin: Origin
    steps: tuple[Entry, ...]
    outcome: Outcome
    error: str
    recovered: bool
    """Whether another process had begun it."""
    began: str = ""
    """When this process began it."""


Listener = Callable[[Ended], None]
"""Called for each plan that has ended. It neither waits nor raises."""


def unheard(_ended: Ended) -> None:
    """Without effect."""


Recorder = Callable[[Entry], None]
"""Called for each line. It neither waits nor raises."""


def unrecorded(_entry: Entry) -> None:
    """Without effect."""


class Audit:
    """The record as one plan writes it."""

    def __init__(
        self,
        path: str,
        *,
        plan: str,
        actor: str,
        reason: str,
        origin: Origin = UNKNOWN,
        recorded: Recorder = unrecorded,
    ) -> None:
        self._path = path
        self._plan = plan
        self._actor = actor
        self._reason = reason
        self._origin = origin
        self._recorded = recorded
        self._began = _now()
        self._steps: list[Entry] = []
        self._recovered = False

    def take_over(self, written: Written) -> None:
        """Go on from where another process was killed, which has written its lines already."""
        self._recovered = True
        plan = written.intent.plan
        for index in sorted(written.done):
            step = written.steps.get(index, plan.steps[index])
            self._steps.append(self._of("found done" if index in written.found else "done", step))
        if written.undo is not None:
            failed = plan.steps[written.undo.index]
            self._steps.append(self._of("failed", failed, error=written.undo.error))
        undone = [self._of("undone", plan.steps[index]) for index in written.undone]
        left_over = [self._of("left over", plan.steps[index]) for index in written.left_over]
        self._steps += [*undone, *left_over]

    def ended(self, outcome: Outcome, error: str = "") -> Ended:
        """The plan as it has ended."""
        return Ended(
            self._plan,
            self._actor,
            self._reason,
            self._origin,
            tuple(self._steps),
            outcome,
            error,
            self._recovered,
            self._began,
        )

    def plan(self, outcome: Outcome, words: str = "", error: str = "") -> None:
        """A line about the plan as a whole, on the disk when this returns. Raises OSError."""
        self._add(self._entry(outcome, words=words, error=error), sync=True)

    def step(
        self, outcome: Outcome, step: Step, *, before: str = "", after: str = "", error: str = ""
    ) -> None:
        """A line about one step. Raises OSError."""
        entry = self._of(outcome, step, before=before, after=after, error=error)
        self._steps.append(entry)
        self._add(entry, sync=False)

    def _of(self, outcome: Outcome, step: Step, **details: str) -> Entry:
        return self._entry(
            outcome, device=subject(step), words=describe(step), step=step, **details
        )

    def _entry(self, outcome: Outcome, **details: object) -> Entry:
        return Entry(
            time=_now(),
            plan=self._plan,
            actor=self._origin.on_behalf(self._actor),
            reason=self._reason,
            outcome=outcome,
            object=self._origin.object,
            **details,  # type: ignore[arg-type]  # fields of Entry
        )

    def _add(self, entry: Entry, *, sync: bool) -> None:
        try:
            files.append(self._path, msgspec.json.encode(entry), create=True, sync=sync)
        finally:
            self._recorded(entry)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
