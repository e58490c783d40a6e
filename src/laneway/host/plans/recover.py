"""End what a process that was killed began: finish its plans, or go on undoing them.

The journal says what was meant and how far it had come, hardware says what of it is so; the rest
is done as if nothing had happened. A recovery that is killed itself leaves the same journal, a
little longer, and is recovered in its turn. Two things are left alone: what an earlier boot of the
node was about, because hardware has forgotten it, unless all of it is files, which do not forget;
and devices that were changed since.
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

from laneway.core.plan import BootStep, LoadModule, Plan
from laneway.core.refusals import DeviceChanged, DeviceDisappeared, Refusal, WriteFailed
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Audit
from laneway.host.plans.files import StateError
from laneway.host.plans.journal import Journal, Written, read
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.outcome import Report, StepNotDone, describe_error, ignore
from laneway.host.plans.run import Run

log = logging.getLogger(__name__)


class Recovery(NamedTuple):
    """What became of one interrupted plan."""

    plan: Plan
    actor: str
    """Who had it made, and why."""
    reason: str
    outcome: Literal["finished", "undone", "left"]
    """`left`: hardware is as it was found."""
    refusal: Refusal | None
    """Why it is not finished; None also when the node was booted again since."""


async def recover(
    hardware: Hardware,
    *,
    actor: str,
    progress: Report = ignore,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> tuple[Recovery, ...]:
    """Recover every interrupted plan, oldest first.

    Raises BusyError while another process carries out plans, and StateError when a journal cannot
    be read or written, in which case nothing has been done.
    """
    state = hardware.state
    async with state.recovering:
        if not state.interrupted():
            return ()
        try:
            with state.lock(actor):
                recovered = []
                # Read first, all of them: damage is found before anything is done.
                found = [(path, read(path, state.boot)) for path in state.interrupted()]
                for path, written in found:
                    with state.running(path):
                        ended = await _recover(hardware, Journal(path), written, progress, limits)
                    if ended is not None:
                        recovered.append(ended)
                return tuple(recovered)
        except OSError as error:
            raise StateError(describe_error(error)) from error


async def _recover(
    hardware: Hardware,
    journal: Journal,
    written: Written | None,
    progress: Report,
    limits: Limits,
) -> Recovery | None:
    if written is None or written.ended:
        journal.discard()
        return None
    intent = written.intent
    audit = Audit(
        hardware.state.audit,
        plan=journal.id,
        actor=intent.actor,
        reason=intent.reason,
        origin=intent.origin,
        recorded=hardware.recorded,
    )
    audit.take_over(written)

    def ended(
        outcome: Literal["finished", "undone", "left"], refusal: Refusal | None = None
    ) -> Recovery:
        log.warning("an interrupted plan of %s was recovered: %s", intent.actor, outcome)
        return Recovery(intent.plan, intent.actor, intent.reason, outcome, refusal)

    if intent.boot != hardware.state.boot and not _outlives_a_boot(intent.plan):
        gone = "the node was booted since, and what the plan did is gone"
        audit.plan("closed", error=gone)
        journal.end()
        hardware.ended(audit.ended("closed", gone))
        return ended("left")
    run = Run(hardware, intent.plan, journal, audit, progress=progress, limits=limits)
    run.take_over(written)
    if written.undo is not None:
        step = intent.plan.steps[written.undo.index]
        await run.undo_on(written.undo)
        return ended(
            "undone", WriteFailed(describe(step), written.undo.error, tuple(run.left_over))
        )
    for index, step in enumerate(intent.plan.steps):
        if index in written.done:
            continue
        try:
            if index in written.steps:
                await run.redo(index, written.steps[index])
            else:
                await run.do(index, step)
        except StepNotDone as failure:
            if isinstance(failure.refusal, DeviceChanged | DeviceDisappeared) or failure.in_kernel:
                await run.leave(index, failure)
                return ended("left", failure.refusal)
            return ended("undone", (await run.give_up(index, failure)).refusal)
    await run.finish()
    return ended("finished")


def _outlives_a_boot(plan: Plan) -> bool:
    """A module is loaded again without harm; a plan of devices has other steps too."""
    files = [step for step in plan.steps if isinstance(step, BootStep)]
    others = [step for step in plan.steps if not isinstance(step, BootStep | LoadModule)]
    return bool(files) and not others
