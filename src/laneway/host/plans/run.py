"""One plan under way, forwards or backwards: the part that execution and recovery share.

What decides is always what hardware shows. A step that hardware has already is not done, and not
undone either. A step that was done is believed only once it is read back, and one that reported an
error is done all the same when it is read back. So the same code goes on where another process was
killed, whatever that one came to write down.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Container
from typing import NamedTuple

from msgspec.structs import replace

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    OverrideDriver,
    Plan,
    Probe,
    ResetFunction,
    Step,
    Unbind,
    subject,
    undo,
)
from laneway.core.refusals import (
    DeviceChanged,
    DeviceDisappeared,
    DeviceHeld,
    ResetFailed,
    WriteFailed,
)
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.leaving import read_locked
from laneway.host.plans import memory
from laneway.host.plans.audit import Audit, Outcome
from laneway.host.plans.files import StateError
from laneway.host.plans.guard import affected_holders, awaited_holders
from laneway.host.plans.journal import Begin, Done, Journal, Record, Undo, Undone, Written
from laneway.host.plans.looks import DONE, STEADY, look
from laneway.host.plans.operations import operation_of
from laneway.host.plans.operations.access import driver_of, is_there, is_waiting
from laneway.host.plans.operations.operation import Limits, Seen, State
from laneway.host.plans.outcome import (
    Phase,
    Progress,
    Report,
    StepError,
    StepNotDone,
    describe_error,
    failures,
)

log = logging.getLogger(__name__)


class _TakenBack(NamedTuple):
    """What became of undoing one step."""

    error: str
    """Why it could not be; empty when it was."""
    before: str = ""
    after: str = ""


class Run:
    """A plan with its journal. Owns which steps are done."""

    def __init__(
        self,
        hardware: Hardware,
        plan: Plan,
        journal: Journal,
        audit: Audit,
        *,
        progress: Report,
        limits: Limits,
    ) -> None:
        self.done: dict[int, Step] = {}
        """Steps to undo if the plan fails, as they were done, in their order."""
        self.left_over: list[str] = []
        self._begun: dict[int, Step] = {}
        self._own: list[int] = []
        """Steps that this process has done."""
        self._behind = False
        """Whether hardware has gone on and the journal does not say so."""
        self._kept: dict[str, str] = {}
        """Devices that are not undone any further, and why: they are in use."""
        self._hardware = hardware
        self._plan = plan
        self._journal = journal
        self._audit = audit
        self._progress = progress
        self._limits = limits

    def take_over(self, written: Written) -> None:
        """Go on from where another process was killed."""
        self._begun = dict(written.steps)
        todo = written.done - written.found
        if written.undo is not None and written.undo.dirty:
            todo.add(written.undo.index)
        for index in sorted(todo - written.undone - written.left_over):
            self.done[index] = self._begun.get(index, self._plan.steps[index])
        self.left_over += [describe(self._plan.steps[index]) for index in written.left_over]

    # -------------------------------------------------------------------------------------- forward

    async def do(self, index: int, step: Step) -> None:
        """Do a step that was not begun. Raises StepNotDone."""
        operation = operation_of(step)
        with failures():
            seen = await self._look(step, STEADY)
            if seen.state is State.AFTER:
                self._journal.add(Done(index, found=True))
                self._audit.step("found done", step, after=seen.value)
                self._tell(index, step, "done")
                return
            if seen.state is State.OTHER:
                self._check_there(step)
                raise StepNotDone(
                    f"the device has changed since the plan was made: {seen.value or 'nothing'}",
                    DeviceChanged(describe(step)),
                )
            step = await operation.resolve(self._hardware, step)
            memory.before(self._hardware, self._plan, step)
            self._journal.add(Begin(index, step))
            self._begun[index] = step
        await self._perform(index, step, seen)

    async def redo(self, index: int, step: Step) -> None:
        """Have a step done that another process has begun. Raises StepNotDone."""
        with failures():
            seen = await self._look(step, STEADY)
            if seen.state is State.OTHER:
                self._check_there(step)
                raise StepNotDone(f"the device shows {seen.value}", DeviceChanged(describe(step)))
            if seen.state is not State.AFTER:
                await self._perform(index, step, seen, begun=True)
                return
            if held := await awaited_holders(self._hardware, step):
                raise StepNotDone(
                    "an earlier write still waits in the kernel", held, in_kernel=True
                )
            self._record_done(index, step, "", seen)

    async def _perform(self, index: int, step: Step, seen: Seen, *, begun: bool = False) -> None:
        with failures():
            self._tell(index, step, "doing")
            after = await self._once(step, begun=begun)
            self._own.append(index)
            self._record_done(index, step, seen.value, after)

    def _record_done(self, index: int, step: Step, before: str, after: Seen) -> None:
        note = self._note_on(step, after)
        self.done[index] = step
        self._journal.add(Done(index))
        self._audit.step("done", step, before=before, after=after.value, error=note)
        self._tell(index, step, "done", note)
        log.info("did: %s", describe(step))
        if note:
            log.warning("%s: %s", describe(step), note)

    def _note_on(self, step: Step, seen: Seen) -> str:
        """A function may go without a driver, but not unsaid when it had one."""
        if not isinstance(step, Probe) or step.driver or seen.state is State.AFTER:
            return ""
        driver = self._hardware.state.originals.get(step.function)
        return f"no driver has taken {step.function}, which {driver} had before" if driver else ""

    async def _once(self, step: Step, *, begun: bool = False) -> Seen:
        """Perform a step and say what it led to. Raises StepNotDone."""
        if held := await affected_holders(self._hardware, step):
            raise StepNotDone(f"it is in use: {'; '.join(held.holders)}", held)
        try:
            await operation_of(step).perform(self._hardware, step, self._limits)
        except OSError as error:
            self._check_there(step)
            words = describe_error(error)
            if isinstance(step, ResetFunction):
                raise StepNotDone(words, ResetFailed(str(step.function), words)) from error
            if error.errno == errno.ETIMEDOUT:
                # Whatever it shows now, the kernel is not done.
                raise StepNotDone(words) from error
            # One that another process began may still be under way, and refuse ours for that.
            seen = await self._look(step, DONE, self._limits.aftermath_seconds if begun else 0.0)
            if seen.state is not State.AFTER:
                raise StepNotDone(words, dirty=seen.state is State.OTHER) from error
            log.warning("%s: %s, but it is done", describe(step), words)
            return seen
        seen = await self._look(step, DONE)
        if self._note_on(step, seen):  # the driver may take a moment
            seen = await self._look(step, {State.AFTER})
        if seen.state not in DONE:
            self._check_there(step)
            shown = f"; it shows {seen.value}" if seen.value else ""
            raise StepNotDone(
                f"the driver accepted the write, but nothing changed{shown} (EIO)",
                dirty=seen.state is State.OTHER,
            )
        return seen

    def _check_there(self, step: Step) -> None:
        """Raise StepNotDone where the device has gone, whatever a write to it reported."""
        if not is_there(self._hardware, step):
            gone = DeviceDisappeared(subject(step), describe(step))
            raise StepNotDone("the device disappeared", gone)

    # --------------------------------------------------------------------------------- ways to end

    async def finish(self) -> None:
        """Every step is done."""
        await self._close("finished")

    async def give_up(self, index: int, failure: StepNotDone) -> StepError:
        """A step failed: undo the plan, close it, and say what became of it."""
        step = self._plan.steps[index]
        self._tell(index, step, "failed")
        self._say("failed", step, error=failure.error)
        if isinstance(failure.refusal, ResetFailed) and isinstance(step, ResetFunction):
            self._quarantine(step, failure)
            await self._close("closed", failure.error)
            return StepError(failure.refusal, undone=False)
        if is_waiting(self._hardware, subject(step)):
            self._kept[subject(step)] = failure.error
        self._note(Undo(failure.error, index, failure.dirty))
        undone = bool(self.done)
        if failure.dirty:
            self.done[index] = self._begun.get(index, step)
        await self.backward(even_if_other=index if failure.dirty else None)
        await self._close("closed", failure.error)
        if isinstance(failure.refusal, DeviceHeld) and not undone:
            return StepError(failure.refusal, undone=False)
        if isinstance(failure.refusal, DeviceDisappeared):
            gone = replace(failure.refusal, left_over=tuple(self.left_over))
            return StepError(gone, undone=undone)
        refusal = WriteFailed(describe(step), failure.error, tuple(self.left_over))
        return StepError(refusal, undone=undone)

    async def undo_on(self, begun: Undo) -> None:
        """Go on undoing what another process had begun to undo."""
        await self.backward(even_if_other=begun.index if begun.dirty else None)
        await self._close("closed", begun.error)

    async def leave(self, index: int, failure: StepNotDone) -> None:
        """The devices were changed by something else: they are left as they were found."""
        self._say("failed", self._plan.steps[index], error=failure.error)
        for own in reversed(self._own):
            await self._undo(own, self.done[own])
        await self._close("closed", failure.error)

    async def _close(self, outcome: Outcome, error: str = "") -> None:
        # Hardware is as it will be. A journal that cannot be closed now is closed by recovery.
        try:
            await memory.settle(self._hardware, self._plan)
            self._audit.plan(outcome, error=error)
            self._journal.end()
        except (OSError, StateError) as problem:
            log.error("the plan cannot be closed: %s", problem)  # noqa: TRY400 - its text is all
            if self._behind:  # To recover it would do again what has been undone.
                self._drop()
        self._hardware.ended(self._audit.ended(outcome, error))

    def _drop(self) -> None:
        try:
            self._journal.discard()
        except OSError as problem:
            log.error("the journal cannot be removed: %s", problem)  # noqa: TRY400 - its text is all

    def _quarantine(self, step: ResetFunction, failure: StepNotDone) -> None:
        try:
            self._hardware.state.quarantine(step.function, failure.error)
        except (OSError, StateError) as problem:
            log.error("the quarantine of %s cannot be noted: %s", step.function, problem)  # noqa: TRY400 - its text is all

    # ------------------------------------------------------------------------------------- backward

    async def backward(self, even_if_other: int | None = None) -> None:
        """Undo what is done, last first; what cannot be is left over, and said.

        One step may be named that left hardware neither as before nor as after.
        """
        for index, step in reversed(list(self.done.items())):
            error = await self._undo(index, step, even_if_other=index == even_if_other)
            if error is not None:
                self._note(Undone(index, left_over=bool(error)))
            self.done.pop(index, None)

    async def _undo(self, index: int, step: Step, *, even_if_other: bool = False) -> str | None:
        """Why a step could not be undone; None where there is nothing to undo."""
        reverse = self._reverse(step)
        if reverse is None or not is_there(self._hardware, step):
            return None
        self._tell(index, step, "undoing")
        error, before, after = await self._take_back(reverse, even_if_other=even_if_other)
        if error:
            log.warning("could not undo: %s: %s", describe(step), error)
            self.left_over.append(describe(step))
        outcome: Outcome = "left over" if error else "undone"
        self._say(outcome, step, error=error, before=before, after=after)
        self._tell(index, step, "failed" if error else "undone")
        return error

    def _reverse(self, step: Step) -> Step | None:
        if isinstance(step, Probe) and not step.driver:
            # The driver was not named: it is the one that took the function.
            with contextlib.suppress(OSError):
                driver = driver_of(self._hardware, step.function)
                return Unbind(step.function, driver) if driver else None
        return undo(step)

    async def _take_back(self, reverse: Step, *, even_if_other: bool) -> _TakenBack:
        """Take a step back by the step that does so.

        Once a device is in use, or a write to it waits in the kernel, the rest is left too.
        """
        device = subject(reverse)
        if device in self._kept:
            return _TakenBack(self._kept[device])
        if isinstance(reverse, OverrideDriver) and await self._is_locked(reverse.function):
            return _TakenBack("the kernel is removing it from its holder")
        before = ""
        try:
            with failures():
                seen = await self._look(reverse, STEADY)
                before = seen.value
                if seen.state is State.AFTER:
                    return _TakenBack("", before, before)
                if seen.state is State.OTHER and not even_if_other:
                    return _TakenBack(f"the device shows {before or 'nothing'}", before, before)
                resolved = await operation_of(reverse).resolve(self._hardware, reverse)
                memory.before(self._hardware, self._plan, resolved)
                after = await self._once(resolved, begun=True)
        except StepNotDone as failure:
            if isinstance(failure.refusal, DeviceHeld) or is_waiting(self._hardware, device):
                self._kept[device] = failure.error
            return _TakenBack(failure.error, before)
        return _TakenBack("", before, after.value)

    async def _is_locked(self, function: PciAddress) -> bool:
        return bool(await asyncio.to_thread(read_locked, self._hardware.host, [function]))

    async def _look(
        self, step: Step, states: Container[State], seconds: float | None = None
    ) -> Seen:
        limit = self._limits.settle_seconds if seconds is None else seconds
        return await look(self._hardware, step, self._limits, states, limit)

    # ---------------------------------------------------------------------------------------- notes

    def _tell(self, index: int, step: Step, phase: Phase, note: str = "") -> None:
        self._progress(Progress(step, index + 1, len(self._plan.steps), phase, note))

    def _note(self, record: Record) -> None:
        """To undo matters more than to write down that it is being undone."""
        try:
            self._journal.add(record)
        except OSError as error:
            log.error("the journal cannot be written: %s", describe_error(error))  # noqa: TRY400 - its text is all
            self._behind = True

    def _say(
        self, outcome: Outcome, step: Step, *, error: str, before: str = "", after: str = ""
    ) -> None:
        try:
            self._audit.step(outcome, step, before=before, after=after, error=error)
        except OSError as problem:
            log.error("the audit record cannot be written: %s", describe_error(problem))  # noqa: TRY400 - its text is all
