"""`laneway plan moves --apply`: the proposal, the question, and the moves one by one.

The cluster is read once for the proposal, and again for every move. What ends the moves early is
told with what was done, what was not, how each VM is, and the command that goes on from there.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from laneway.changes.moving import all_moves, lock
from laneway.changes.moving.all_moves import Result
from laneway.changes.moving.before import against, unreadable
from laneway.changes.moving.work import MovesListener, Seen, Work
from laneway.cli import connection, fleet, interrupts, progress, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.output import View, show
from laneway.cli.statuses import ExitStatus
from laneway.controllers.ledger.snapshot import look as look_at_ledger
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.moves import Move, Moves, Outcome
from laneway.kube.client import Client
from laneway.views.fleet import observed
from laneway.views.planning import moves as said


class Apply(NamedTuple):
    """How moves are to be made."""

    yes: bool
    """Without a question."""
    seconds: int
    command: Sequence[str]
    """That goes on where this one ended early."""


def again(
    profiles: Sequence[str], where: ClusterChoice, given: Mapping[str, object], *, restart: bool
) -> Sequence[str]:
    """The command for the same vGPUs, which plans by the cluster as it is then.

    `given`: the other options with a value that the user gave, `--timeout`.
    """
    cluster = {"--kubeconfig": where.kubeconfig, "--context": where.context}
    options = {**given, **{name: value for name, value in cluster.items() if value is not None}}
    flags = ["--restart"] if restart else []
    valued = [f"{name}={value}" for name, value in options.items()]
    return ["laneway", "plan", "moves", *profiles, *flags, "--apply", *valued]


class Plan(NamedTuple):
    """What is proposed for a fleet."""

    found: Moves
    wanted: Mapping[str, int]


def carry_out(
    propose: Callable[[Fleet], Plan],
    report: Callable[[Moves], Iterator[str]],
    apply: Apply,
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Propose, ask, and move; gives the exit status. Raises Failure."""
    if output is None:
        return _carried_out(propose, report, apply, where)[0]
    with contextlib.redirect_stdout(sys.stderr):
        status, found, result = _carried_out(propose, report, apply, where)
    parts = (found, result)
    document = {name: getattr(one, name) for one in parts for name in one.__struct_fields__}
    names = [move.vm for move in result.done]
    show(View(document=document, names=names, text=lambda _: ""), output)
    return status


def _carried_out(
    propose: Callable[[Fleet], Plan],
    report: Callable[[Moves], Iterator[str]],
    apply: Apply,
    where: ClusterChoice,
) -> tuple[int, Moves, Result]:
    """The exit status, the proposal, and what came of it."""

    async def proposed(client: Client) -> tuple[Plan, tuple[str, ...]]:
        work = work_of(client, apply.seconds, _Printer())
        seen = await work.look()
        if why := unreadable(seen):
            raise Failure(f"nothing was changed: {why}")
        plan = propose(seen.fleet)
        return plan, await against(work, seen, plan.found)

    plan, reasons = connection.ask(proposed, where)
    click.echo(table.paragraph(report(plan.found)), nl=False)
    if plan.found.outcome is not Outcome.FOUND:
        return ExitStatus.NO, plan.found, Result(done=())
    if not (plan.found.moves or plan.found.in_the_way):
        return ExitStatus.DONE, plan.found, Result(done=())
    if reasons:
        for reason in reasons:
            click.echo(one_line(f"{reason}."), err=True)
        raise Failure("refused; nothing was changed")
    confirm(plan.found, apply)

    async def moved(client: Client) -> Result:
        work = work_of(client, apply.seconds, _Printer())
        async with lock.alone(work):
            return await all_moves.carry_out(work, plan.found, plan.wanted)

    result = connection.ask(moved, where)
    _tell(result, plan, apply)
    return ExitStatus.DONE, plan.found, result


def work_of(client: Client, seconds: int, listener: MovesListener) -> Work:
    """What moves in a live cluster work with."""

    async def look() -> Seen:
        with connection.installed("PCIDeviceClaim"):
            ledger = await look_at_ledger(client)
        gpus = await fleet.look(client)
        found = observed(ledger.facts, gpus.gpus, (*ledger.unknown, *gpus.unreadable))
        return Seen(found, {gpu.name: gpu for gpu in gpus.gpus})

    return Work(client, look, seconds, listener)


def confirm(found: Moves, apply: Apply) -> None:
    """Ask whether to go on. Raises Failure where the answer is no or cannot come."""
    if apply.yes:
        return
    if not sys.stdin.isatty():
        raise Failure(
            "nothing was changed: standard input is no terminal, so it takes no answer. To apply "
            "the moves without a question, add --yes"
        )
    question = f"Make {'this move' if len(found.moves) == 1 else 'these changes'} now?"
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        interrupts.say("; nothing was changed")
        raise
    if not agreed:
        raise Failure("nothing was changed")


class _Printer(progress.Printer, MovesListener):
    """Prints each move, and what is waited for."""

    def begun(self, move: Move) -> None:
        click.echo(one_line(f"Now: {said.move(move)}"))

    def moved(self, move: Move) -> None:
        click.echo(one_line(f"Done: {said.move(move)}"))


def _tell(result: Result, plan: Plan, apply: Apply) -> None:
    """Print how it ended. Raises Failure, or Abort after a signal, where that was too early."""
    if not result.why:
        for line in said.after(plan.found):
            click.echo(one_line(f"Done. Now there is {line.removeprefix('then ')}."))
        return
    for line in _lines(result):
        click.echo(one_line(line), err=True)
    further = f"To go on from here: {shlex.join(apply.command)}"
    if result.interrupted:
        interrupts.say(f". {further}")
        raise click.Abort
    raise Failure(f"stopped: {result.why.rstrip('.')}. {further}")


def _lines(result: Result) -> Iterator[str]:
    """What was done, what was not, and how the VMs are."""
    yield from (f"done: {said.move(move)}" for move in result.done)
    if result.failed is not None:
        how = "not undone completely" if result.kept else "undone"
        yield f"{how}: {said.move(result.failed)}"
    yield from (f"left as it is: {words}" for words in result.kept)
    yield from (f"not begun: {said.move(move)}" for move in result.left)
    yield from (f"now: {words}" for words in result.states)
