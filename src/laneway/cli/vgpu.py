"""`laneway vgpu set`: all vGPUs of one GPU at once."""

from __future__ import annotations

from typing import NamedTuple

import click

from laneway.api import VGPULayout
from laneway.changes import vgpus
from laneway.changes.trial import Trial
from laneway.changes.vgpus import Desired
from laneway.cli import (
    asking,
    changing,
    connection,
    gpu_changes,
    profile_names,
    reporting,
    steps,
    target,
)
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.answers import Answer
from laneway.views.gpus import Gpu
from laneway.views.profiles import room, shortened


def set_vgpus(
    *,
    which: str,
    wanted: dict[str, int],
    mode: str | None,
    take_over: bool,
    dry_run: bool,
    when_possible: bool,
    wait: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Configure exactly these vGPUs on a GPU, as it was typed. Raises Failure."""
    asked = _Asked(which, wanted, mode, take_over, dry_run, when_possible, wait, timeout)
    with reporting.reported(output) as result:
        connection.ask(lambda client: _fulfil(client, asked, result), where)


class _Asked(NamedTuple):
    """A command as it was typed."""

    which: str
    wanted: dict[str, int]
    mode: str | None
    take_over: bool
    dry_run: bool
    when_possible: bool
    wait: bool
    seconds: int


async def _layouts(client: Client) -> list[VGPULayout]:
    resource = served(VGPULayout)
    with connection.installed(resource.kind):
        return [
            resource.decode(item) async for page in client.list(resource) for item in page.items
        ]


async def _fulfil(client: Client, asked: _Asked, result: reporting.Result) -> None:
    meant = await target.find(client, asked.which)
    result.gpu, result.kind, result.name = meant.title, "VGPULayout", meant.name
    result.dry_run = asked.dry_run
    gpu_changes.reachable(meant)
    full = profile_names.in_full(asked.wanted, *vgpus.known(meant))
    own = vgpus.own_layout(meant, await _layouts(client), "this command")
    desired = Desired(full, asked.mode, asked.take_over, asked.when_possible)
    if not asked.when_possible:
        found = await _possible(client, meant, desired, own, asked)
        if asked.dry_run:
            result.state, result.steps = "Planned", found.steps
            result.fits_afterwards = shortened(found.fits_afterwards)
            _print_plan(found)
            return
    elif asked.dry_run:
        raise Failure("--when-possible stores a change, and --dry-run none; use one of them")
    result.state = "Stored"
    answer = await _stored(client, meant, desired, own, asked)
    if answer is not None:
        result.state, result.reason, result.message = "Done", answer.reason, answer.message
        click.echo(one_line(f"Done. {answer.message or answer.reason}"))


async def _possible(
    client: Client, gpu: Gpu, desired: Desired, own: VGPULayout | None, asked: _Asked
) -> Trial:
    """What the agent would do. Raises Failure where the change is refused."""
    if reasons := list(vgpus.claimed(gpu)):
        raise gpu_changes.refused(reasons, dry_run=asked.dry_run)
    return await asking.agreed(
        client,
        gpu,
        vgpus.trial_spec(gpu, desired, own),
        seconds=asking.patience(asked.seconds, wait=asked.wait),
        dry_run=asked.dry_run,
        fits=True,
    )


async def _stored(
    client: Client, gpu: Gpu, desired: Desired, own: VGPULayout | None, asked: _Asked
) -> Answer | None:
    """Store the change and wait for the agent; None where the command does not wait."""
    change = vgpus.change_of(gpu, desired, own)
    seconds = asked.seconds if asked.wait else 0
    outcome = await vgpus.configured(
        client,
        gpu,
        desired,
        own,
        waiting=changing.waiting(client, gpu, seconds, when_possible=asked.when_possible),
        listener=changing.ChangePrinter(change, when_possible=asked.when_possible),
    )
    return changing.ended(change, outcome)


def _print_plan(found: Trial) -> None:
    """Print the steps of a plan, as `laneway host plan` does, and what would fit then."""
    if found.steps:
        click.echo("Would do, in this order:")
        for line in steps.numbered(found.steps):
            click.echo(line)
    else:
        click.echo("Nothing to do: the GPU is as desired.")
    if fits := room(found.fits_afterwards):
        click.echo(one_line(f"Room afterwards: {fits}."))
