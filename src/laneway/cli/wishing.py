"""What the commands that ask something of a GPU share: their options, and how each of them ends."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from laneway.cli import connection, fleet, progress
from laneway.cli.errors import Failure, one_line
from laneway.core.gpu.modes import Mode

Command = Callable[..., Any]

SECONDS = 300
"""A GPU with many virtual functions, whose MIG mode changes too, takes minutes."""

_OPTIONS = (
    click.option(
        "--dry-run",
        is_flag=True,
        help="Say what would be done, or why it cannot be; change nothing.",
    ),
    click.option(
        "--wait/--no-wait",
        default=True,
        show_default=True,
        help="Wait until the node's agent has done it, or has said why not.",
    ),
    click.option(
        "--timeout",
        type=click.IntRange(1, 86400),
        default=SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait.",
    ),
    connection.kubeconfig_option,
)


def options(command: Command) -> Command:
    """`--dry-run`, `--wait`, `--timeout` and `--kubeconfig`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def mode_option(modes: Iterable[Mode], text: str) -> Callable[[Command], Command]:
    """`--mode`, in whatever case, as one of these."""
    by_name = {mode.value.lower(): mode.value for mode in modes}
    values = ", ".join(by_name.values())

    def chosen(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
        if given is None:
            return None
        if (mode := by_name.get(given.lower())) is not None:
            return mode
        other = next((mode for mode in Mode if mode.value.lower() == given.lower()), None)
        if other is not None:
            raise click.BadParameter(
                f"a GPU in mode {other} has no virtual functions, so it carries no vGPU; it is one "
                f"of {values}. For mode {other}: laneway gpu disable NODE/ADDRESS --mode {other}"
            )
        raise click.BadParameter(f"there is no mode {given[:60]!r}; it is one of {values}")

    return click.option("--mode", callback=chosen, metavar="|".join(by_name.values()), help=text)


def reachable(gpu: fleet.Gpu) -> None:
    """Tell when the node's agent may not answer. Raises Failure when nobody will."""
    if gpu.abandoned:
        raise Failure(
            f"{gpu.title} cannot be changed: {gpu.stale}. What is left of it in the cluster can be "
            f"removed: kubectl delete sriovgpudevice {gpu.name}"
        )
    if gpu.stale:
        click.echo(one_line(f"laneway: warning: {gpu.node}: {gpu.stale}"), err=True)


def patch_back(resource: str, name: str, spec: Mapping[str, Any]) -> str:
    """The command that sets fields of a spec back to what they were."""
    body = json.dumps({"spec": spec})
    return f"kubectl patch {resource} {name} --type merge -p {shlex.quote(body)}"


def refused(reasons: Sequence[str], effect: str) -> Failure:
    """Print everything that speaks against a wish, each on its line; gives how it ends."""
    for reason in reasons:
        click.echo(one_line(reason), err=True)
    return Failure(f"refused; {effect}")


def ended(answer: progress.Answer, undo: str = "") -> None:
    """Print the final answer to a wish. Raises Failure when it is no.

    `undo`: what brings back the wish before this one; empty where this one changed nothing.
    """
    if answer.kind == "refused":
        back = f". To take it back: {undo}" if undo else ""
        effect = f"the wish stays, and is met once nothing stands against it{back}"
        raise refused([answer.words], effect)
    click.echo(one_line(f"Done. {answer.message or answer.reason}"))
