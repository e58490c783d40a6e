"""The audit record: every write to hardware, who had it made and why, before, after, outcome.

It is only ever added to, a line of JSON a step, and is never rotated, so that what happened to
a device is known years later. Lines of steps are not waited for on their way to the disk one
by one, but all are there when the line that closes their plan is.
"""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

from laneway.core.plan import Step, subject
from laneway.core.words import describe
from laneway.host.plans import files

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
    device: str = ""
    words: str = ""
    step: Step | None = None
    before: str = ""
    after: str = ""
    error: str = ""


class Audit:
    """The record as one plan writes it."""

    def __init__(self, path: str, *, plan: str, actor: str, reason: str) -> None:
        self._path = path
        self._plan = plan
        self._actor = actor
        self._reason = reason

    def plan(self, outcome: Outcome, words: str = "", error: str = "") -> None:
        """A line about the plan as a whole, on the disk when this returns. Raises OSError."""
        self._add(self._entry(outcome, words=words, error=error), sync=True)

    def step(
        self, outcome: Outcome, step: Step, *, before: str = "", after: str = "", error: str = ""
    ) -> None:
        """A line about one step. Raises OSError."""
        entry = self._entry(
            outcome,
            device=subject(step),
            words=describe(step),
            step=step,
            before=before,
            after=after,
            error=error,
        )
        self._add(entry, sync=False)

    def _entry(self, outcome: Outcome, **details: object) -> Entry:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        return Entry(
            time=now,
            plan=self._plan,
            actor=self._actor,
            reason=self._reason,
            outcome=outcome,
            **details,  # type: ignore[arg-type]  # fields of Entry
        )

    def _add(self, entry: Entry, *, sync: bool) -> None:
        files.append(self._path, msgspec.json.encode(entry), create=True, sync=sync)
