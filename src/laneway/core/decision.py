"""What deciding about hardware ends in: nothing to do, a plan, or all that speaks against one."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.plan import Plan, Satisfied, Step
from laneway.core.refusals import Refusal

Decision = Satisfied | Plan | tuple[Refusal, ...]

TO_BE_PLANNED = Plan(())
"""At a glance (`situation.glance`): something is to be done, and only a close look tells what."""


def conclude(
    against: Iterable[Refusal], steps: Iterable[Step], then: tuple[str, ...] = ()
) -> Decision:
    """A plan only where nothing speaks against it, and only where there is something to do."""
    # Two ways to one function, through its group and its card, find the same obstacle twice.
    refusals = tuple(dict.fromkeys(against))
    if refusals:
        return refusals
    plan = Plan(tuple(steps), then)
    return plan if plan.steps else Satisfied()


def refusals_of(decision: Decision) -> tuple[Refusal, ...]:
    """What speaks against it, for a decision that is a part of another."""
    return () if isinstance(decision, Satisfied | Plan) else decision


def steps_of(decision: Decision) -> tuple[Step, ...]:
    """What is to be done, for a decision that is a part of another."""
    return decision.steps if isinstance(decision, Plan) else ()
