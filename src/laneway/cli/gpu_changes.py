"""What the commands that change a GPU share: its mode, its agent, and how a change is refused."""

from __future__ import annotations

from collections.abc import Sequence

import click

from laneway.changes.gpus import unreachable
from laneway.cli.errors import Failure, one_line
from laneway.cli.suggest import did_you_mean
from laneway.core.gpu.modes import Mode
from laneway.views.gpus import Gpu


def any_mode(text: str) -> str:
    """A mode of a GPU, in whatever case. Raises click.BadParameter."""
    by_name = {mode.value.lower(): mode.value for mode in Mode}
    if (found := by_name.get(text.lower())) is not None:
        return found
    meant = did_you_mean(text, by_name.values()) or f"The modes are {', '.join(by_name.values())}."
    raise click.BadParameter(f"unknown mode {text[:60]!r}. {meant}")


def shared_mode(text: str) -> str:
    """A mode of a GPU whose virtual functions carry vGPUs. Raises click.BadParameter."""
    mode = Mode(any_mode(text))
    if not mode.has_vfs:
        values = ", ".join(mode.value for mode in Mode if mode.has_vfs)
        raise click.BadParameter(
            f"a GPU in mode {mode} has no virtual functions for vGPUs. Choose one of {values}. For "
            f"mode {mode}: laneway gpu disable NODE/ADDRESS --mode {mode}"
        )
    return mode.value


def reachable(gpu: Gpu) -> None:
    """Warn when the node's agent may not answer. Raises Failure when no agent will."""
    if words := unreachable(gpu):
        raise Failure(words)
    if gpu.stale:
        click.echo(one_line(f"laneway: warning: {gpu.node}: {gpu.stale}"), err=True)


def refused(reasons: Sequence[str], *, dry_run: bool) -> Failure:
    """Print every reason against a change on its own line; gives how the command ends."""
    for reason in reasons:
        click.echo(one_line(reason), err=True)
    return Failure(f"refused; nothing {'would be' if dry_run else 'was'} changed")
