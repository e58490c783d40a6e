"""`laneway release --node` and `--all`: everything of nodes, as before Laneway is uninstalled."""

from __future__ import annotations

import click

from laneway.api import CoreNode
from laneway.cli import connection
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.statuses import ExitStatus
from laneway.controllers.release.objects import look
from laneway.controllers.release.steps import release as carry_out
from laneway.core.release.everything import everything
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served

_AGAIN = (
    "What the command deleted or disabled stays so, and the agents finish it as soon as it is "
    "possible. Run the command again for the rest."
)


def release_everything(
    nodes: tuple[str, ...], where: ClusterChoice, *, dry_run: bool, seconds: int
) -> int:
    """Release all that is claimed and configured on nodes, or on all; gives the exit status."""

    async def work(client: Client) -> int:
        for node in nodes:
            await _check(client, node)
        if dry_run:
            return await _told(client, nodes)
        left = await carry_out(client, nodes, _tell, seconds=seconds)
        if not left:
            click.echo("Done. Nothing is claimed or configured.")
            return 0
        for obstacle in left:
            click.echo(one_line(f"left: {obstacle.words}"), err=True)
        objects = "1 object is" if len(left) == 1 else f"{len(left)} objects are"
        click.echo(f"{objects} left after {seconds} s. {_AGAIN}", err=True)
        return ExitStatus.NO

    return connection.ask(work, where, "" if dry_run else f". {_AGAIN}")


async def _check(client: Client, name: str) -> None:
    try:
        await client.get(served(CoreNode), name)
    except NotFoundError:
        raise Failure(
            f"the cluster has no node {name}. 'kubectl get nodes' lists the nodes; what a deleted "
            "node left is removed by the manager"
        ) from None


async def _told(client: Client, nodes: tuple[str, ...]) -> int:
    actions, obstacles = everything(await look(client, nodes))
    if not (actions or obstacles):
        click.echo("Nothing to do: nothing is claimed or configured.")
    for number, action in enumerate(actions, 1):
        click.echo(one_line(f"{number}. {action.words}"))
    for obstacle in obstacles:
        click.echo(one_line(f"blocked: {obstacle.words}"))
    return ExitStatus.NO if obstacles else 0


def _tell(words: str) -> None:
    click.echo(one_line(words))
