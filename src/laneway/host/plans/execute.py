"""Carry out a plan: written down first, step by step, believed only when read back.

When a step fails, the steps before it are undone in reverse order, and the failure says what could
not be undone. A reset that fails is another matter: what its last user left may still be in the
device, so nothing is undone, and the device goes into quarantine.
"""

from __future__ import annotations

from laneway.core.plan import Plan
from laneway.core.refusals import WriteFailed
from laneway.core.requested import UNKNOWN, Origin
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Audit
from laneway.host.plans.files import StateError
from laneway.host.plans.journal import Intent, Journal
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.outcome import (
    Progress,
    Report,
    StepError,
    StepNotDone,
    describe_error,
    ignore,
)
from laneway.host.plans.recover import recover
from laneway.host.plans.run import Run
from laneway.host.plans.state import BusyError

__all__ = ["Limits", "Progress", "StepError", "execute"]


async def execute(
    hardware: Hardware,
    plan: Plan,
    *,
    actor: str,
    reason: str,
    origin: Origin = UNKNOWN,
    progress: Report = ignore,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> None:
    """Do every step, or undo those that were done and raise StepError.

    Plans that another process left interrupted are recovered first.
    """
    if not plan.steps:
        return
    state = hardware.state
    try:
        with state.lock(actor):
            await recover(hardware, actor=actor, limits=limits)
            path = state.new_journal()
            with state.running(path):
                journal = Journal(path)
                audit = Audit(
                    state.audit,
                    plan=journal.id,
                    actor=actor,
                    reason=reason,
                    origin=origin,
                    recorded=hardware.recorded,
                )
                # Both are on the disk, or nothing is written to hardware.
                audit.plan("planned", "; ".join(map(describe, plan.steps)))
                journal.start(Intent(state.boot, actor, reason, plan, origin))
                run = Run(hardware, plan, journal, audit, progress=progress, limits=limits)
                await _carry_out(run, plan)
    except BusyError as error:
        raise StepError(error.refusal, undone=False) from error
    except (OSError, StateError) as error:
        words = describe_error(error) if isinstance(error, OSError) else str(error)
        raise StepError(WriteFailed(describe(plan.steps[0]), words), undone=False) from error


async def _carry_out(run: Run, plan: Plan) -> None:
    for index, step in enumerate(plan.steps):
        try:
            await run.do(index, step)
        except StepNotDone as failure:
            raise await run.give_up(index, failure) from failure
    await run.finish()
