"""From a desired state to the steps that reach it: printed, or carried out with progress.

Some states take more than one look at the host: what a GPU's virtual functions can carry shows only
once they exist. So the steps are decided, carried out and decided again, until none is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import click

from laneway.cli import interrupts, steps
from laneway.cli.errors import Failure, one_line
from laneway.cli.host.hardware import ACTOR, locked
from laneway.core.decision import Decision
from laneway.core.layout.plan import MOST_STAGES
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import Refusal
from laneway.core.situation import Situation
from laneway.core.sriov.desired import incomplete
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.outcome import Progress
from laneway.host.plans.recover import recover
from laneway.host.situation import observe
from laneway.views.steps import step_count

_MAX_ROUNDS = MOST_STAGES + 1
"""The last round finds nothing to do."""


class Desired(NamedTuple):
    """A desired state of devices of a host."""

    text: str
    """For the audit record: the command."""
    decide: Callable[[Situation], Decision]
    addresses: tuple[PciAddress, ...] = ()
    ports: tuple[str, ...] = ()


async def show(hardware: Hardware, desired: Desired) -> None:
    """Print the steps, or why the change is refused."""
    if interrupted := hardware.state.interrupted():
        plans = "plan" if len(interrupted) == 1 else "plans"
        click.echo(
            f"{len(interrupted)} interrupted {plans} would be finished or undone first. That may "
            "change what follows."
        )
    decision = desired.decide(await _look(hardware, desired))
    if isinstance(decision, Plan):
        click.echo("Would do, in this order:")
        list_steps(decision)
    else:
        _end(decision, "nothing would be changed")


async def carry_out(
    hardware: Hardware,
    desired: Desired,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> None:
    """Carry it out and print each step. Raises Failure where it is refused or fails."""
    with locked(hardware):
        await finish_interrupted(hardware)
        done = 0
        for _ in range(_MAX_ROUNDS):
            decision = desired.decide(await _look(hardware, desired))
            if not isinstance(decision, Plan):
                break
            await _execute(hardware, desired, decision, limits)
            done += len(decision.steps)
        else:
            raise Failure(
                "the devices do not stay as Laneway sets them. Another program seems to change them"
            )
        if done and isinstance(decision, Satisfied):
            click.echo(f"Done: {step_count(done)}.")
        else:
            _end(decision, f"{step_count(done)} done before" if done else "nothing was changed")


async def until_interrupted(work: Coroutine[None, None, None], hardware: Hardware) -> None:
    """Await it; a signal ends it where it waits, and what is left for the next command is said."""
    try:
        await interrupts.interruptible(work)
    except asyncio.CancelledError:
        begun = bool(hardware.state.interrupted())
        ended = ". The next command finishes or undoes the plan." if begun else ""
        interrupts.say(ended or "; no change is incomplete")
        raise click.Abort from None


async def _look(hardware: Hardware, desired: Desired) -> Situation:
    node = hardware.host.read("/proc/sys/kernel/hostname").decode("utf-8", "replace").strip()
    situation = await observe(hardware, node, desired.addresses, desired.ports)
    if situation.visibility_error:
        click.echo(f"laneway: warning: {one_line(situation.visibility_error)}", err=True)
    for address in desired.addresses:
        if wrong := incomplete(address, situation.inventory):
            click.echo(f"laneway: warning: {one_line(wrong.words)}", err=True)
    return situation


async def _execute(hardware: Hardware, desired: Desired, plan: Plan, limits: Limits) -> None:
    try:
        await execute(
            hardware,
            plan,
            actor=ACTOR,
            reason=desired.text,
            progress=Printer(),
            limits=limits,
        )
    except StepError as error:
        undone = " The steps before it were undone." if error.undone else ""
        raise Failure(error.refusal.words + undone) from error


def _end(decision: Satisfied | tuple[Refusal, ...], effect: str) -> None:
    if isinstance(decision, Satisfied):
        click.echo("Nothing to do: the device is as desired.")
        return
    for refusal in decision:
        click.echo(one_line(f"{refusal.reason}: {refusal.words}"), err=True)
    raise Failure(f"refused; {effect}")


def list_steps(plan: Plan) -> None:
    for line in steps.numbered([describe(step) for step in plan.steps]):
        click.echo(line)
    if plan.then:
        click.echo("Then, once the device shows what it can do:")
    indent = " " * len(str(len(plan.steps)))
    for words in plan.then:
        click.echo(f"  {indent}  {one_line(words)}")


async def finish_interrupted(hardware: Hardware) -> None:
    """Recover what another command left half done, and print what became of it."""
    for recovery in await recover(hardware, actor=ACTOR, progress=Printer()):
        outcome = "left as it was found" if recovery.outcome == "left" else recovery.outcome
        why = f" {recovery.refusal.words}" if recovery.refusal else ""
        click.echo(one_line(f"An interrupted plan ({recovery.reason}) was {outcome}.{why}"))


class Printer:
    """Prints each step as it is done; owns when the one on the last line began."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self, progress: Progress) -> None:
        place = f"[{progress.number:>{len(str(progress.total))}}/{progress.total}]"
        text = one_line(describe(progress.step))
        back = "take back: " if progress.phase == "undoing" else ""
        if self._began is None:
            click.echo(f"{place} {back}{text} ... ", nl=False)
        if progress.phase in ("doing", "undoing"):
            self._began = time.monotonic()
            return
        # A step is not begun when the device is so already, or when it must not be.
        took = "already" if self._began is None else f"({time.monotonic() - self._began:.2f} s)"
        click.echo("failed" if progress.phase == "failed" else f"done {took}")
        self._began = None
        if progress.note:
            click.echo(f"laneway: warning: {one_line(progress.note)}", err=True)
