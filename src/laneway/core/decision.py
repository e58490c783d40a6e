"""What deciding about hardware ends in: nothing to do, a plan, or all that speaks against one."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.plan import Plan, Satisfied, Step
from laneway.core.refusals import Refusal

Decision = Satisfied | Plan | tuple[Refusal, ...]


def conclude(against: Iterable[Refusal], steps: Iterable[Step]) -> Decision:
    """A plan only where nothing speaks against it, and only where there is something to do."""
    # Two ways to one function, through its group and its card, find the same obstacle twice.
    refusals = tuple(dict.fromkeys(against))
    if refusals:
        return refusals
    plan = Plan(tuple(steps))
    return plan if plan.steps else Satisfied()
