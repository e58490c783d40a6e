"""`laneway gpu enable` and `disable`: a GPU's virtual functions and its mode, through its object.

The command writes the desired state and the agent of the node applies it. Before anything is
written, the objects, the server and the agent are asked whether it is possible.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from laneway.changes import gpus
from laneway.changes.gpus import Desired
from laneway.cli import asking, changing, connection, gpu_changes, reporting, target
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import one_line
from laneway.kube.client import Client
from laneway.views.answers import Answer
from laneway.views.gpus import Gpu
from laneway.views.state import NEXT


def switch(
    *,
    enabled: bool,
    which: str,
    mode: str | None,
    dry_run: bool,
    when_possible: bool,
    wait: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Enable or disable a GPU, as it was typed. Raises Failure."""
    asked = _Asked(which, Desired(enabled, mode), dry_run, when_possible, wait, timeout)
    with reporting.reported(output) as result:
        connection.ask(lambda client: _switched(client, asked, result), where)


class _Asked(NamedTuple):
    """A command as it was typed."""

    which: str
    desired: Desired
    dry_run: bool
    when_possible: bool
    wait: bool
    seconds: int


async def _switched(client: Client, asked: _Asked, result: reporting.Result) -> None:
    meant = await target.find(client, asked.which)
    result.gpu, result.kind, result.name = meant.title, "SRIOVGPUDevice", meant.name
    result.dry_run = asked.dry_run
    gpu_changes.reachable(meant)
    desired, dry_run = asked.desired, asked.dry_run
    different = list(gpus.differences(meant, desired))
    reasons = list(gpus.against(meant, desired, waits=asked.when_possible)) if different else []
    if reasons:
        raise gpu_changes.refused(reasons, dry_run=dry_run)
    # The server's own dry run, so that what it would refuse is refused before an agent is asked.
    await gpus.write(client, meant, desired, dry_run=True)
    if different and not asked.when_possible:
        await asking.agreed(
            client,
            meant,
            gpus.trial_spec(meant, desired),
            seconds=asking.patience(asked.seconds, wait=asked.wait),
            dry_run=dry_run,
            fits=False,
        )
    if dry_run:
        result.state, result.steps = "Planned", different
        _print_changes(meant, different)
        return
    answer = await _stored(client, meant, asked)
    result.state = "Stored"
    if answer is not None:
        next_step = NEXT.get(answer.reason, "").format(title=meant.title)
        result.state, result.reason = "Done", answer.reason
        result.message = next_step or answer.message
        click.echo(one_line(f"Done. {result.message or answer.reason}"))


async def _stored(client: Client, meant: Gpu, asked: _Asked) -> Answer | None:
    """Store the change and wait for the agent; None where the command does not wait."""
    change = gpus.change_of(meant, asked.desired)
    seconds = asked.seconds if asked.wait else 0
    outcome = await gpus.switched(
        client,
        meant,
        asked.desired,
        waiting=changing.waiting(client, meant, seconds, when_possible=asked.when_possible),
        listener=changing.ChangePrinter(change, when_possible=asked.when_possible),
    )
    return changing.ended(change, outcome)


def _print_changes(meant: Gpu, different: list[str]) -> None:
    if not different:
        click.echo("Nothing to do: the GPU is as desired.")
        return
    click.echo(one_line(f"Would change SRIOVGPUDevice {meant.name}, for the agent to apply:"))
    for line in different:
        click.echo(f"  {one_line(line)}")
