"""What the commands that change a GPU share: their options, and how each of them is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from laneway.cli import connection, fleet
from laneway.cli.errors import Failure, one_line
from laneway.core.gpu.modes import Mode

Command = Callable[..., Any]

SECONDS = 300
"""A GPU with many virtual functions, whose MIG mode changes too, takes minutes."""

_OPTIONS = (
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print what would be done, or why it is refused; change nothing.",
    ),
    click.option(
        "--when-possible",
        is_flag=True,
        help="Store it also if it is not possible now, to be applied as soon as it is.",
    ),
    click.option(
        "--wait/--no-wait",
        default=True,
        show_default=True,
        help="Wait until the node's agent has applied it.",
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
    """`--dry-run`, `--when-possible`, `--wait`, `--timeout` and `--kubeconfig`."""
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
                f"a GPU in mode {other} has no virtual functions for vGPUs; choose one of "
                f"{values}. For mode {other}: laneway gpu disable NODE/ADDRESS --mode {other}"
            )
        raise click.BadParameter(f"there is no mode {given[:60]!r}; it is one of {values}")

    return click.option("--mode", callback=chosen, metavar="|".join(by_name.values()), help=text)


def reachable(gpu: fleet.Gpu) -> None:
    """Warn when the node's agent may not answer. Raises Failure when no agent will."""
    if gpu.abandoned:
        raise Failure(
            f"{gpu.title} cannot be changed: {gpu.stale}. What is left of it in the cluster can be "
            f"removed: kubectl delete sriovgpudevice {gpu.name}"
        )
    if gpu.stale:
        click.echo(one_line(f"laneway: warning: {gpu.node}: {gpu.stale}"), err=True)


def refused(reasons: Sequence[str], *, dry_run: bool) -> Failure:
    """Print everything that speaks against a change, each on its line; gives how it ends."""
    for reason in reasons:
        click.echo(one_line(reason), err=True)
    return Failure(f"refused; nothing {'would be' if dry_run else 'was'} changed")


def in_force(spec: dict[str, Any], *, found: dict[str, Any], refused: bool) -> dict[str, Any]:
    """What an object's fields stand for: what they ask for, or what is there where that is refused.

    A refused desired state is never gone back to: it could change the hardware later.
    """
    return {key: found[key] for key in spec} if refused else spec
