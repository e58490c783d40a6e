"""`laneway give-back`: release all devices of nodes, as before Laneway is uninstalled."""

from __future__ import annotations

import click

from laneway.api import CoreNode
from laneway.cli import connection
from laneway.cli.errors import Failure, one_line
from laneway.cli.findings import NO
from laneway.controllers.release.objects import look
from laneway.controllers.release.steps import release as carry_out
from laneway.core.release.everything import everything
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served

_SECONDS = 600
_AGAIN = (
    "What was deleted or disabled before stays so, and agents finish that by themselves as soon as "
    "it is possible. For the rest run the command again."
)


@click.command(
    epilog="""\b
Examples:
    laneway give-back --node node1 --dry-run
    laneway give-back --node node1
    laneway give-back --all && helm uninstall laneway --namespace harvester-system

\b
Exit status: 0 all is back, 3 something is left, 1 it failed.
"""
)
@click.option("--node", "nodes", metavar="NAME", multiple=True, help="May be given several times.")
@click.option("--all", "everywhere", is_flag=True, help="All nodes.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 86400),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for agents, and for VMs that have a device to stop.",
)
@connection.kubeconfig_option
def give_back(
    *,
    nodes: tuple[str, ...],
    everywhere: bool,
    dry_run: bool,
    timeout: int,
    kubeconfig: str | None,
) -> int:
    """Release everything that is claimed and configured on nodes.

    Layouts and claims are deleted; vGPUs, MIG configurations and virtual functions are disabled, in
    an order in which nothing goes before what depends on it. What a VM has stays with it, and the
    VM is named; stop it, and the command goes on. Uninstalling Laneway without this leaves all
    devices as they are.
    """
    if everywhere == bool(nodes):
        raise click.UsageError("say which nodes: --node NAME, or --all")

    async def work(client: Client) -> int:
        for node in nodes:
            await _check(client, node)
        if dry_run:
            return await _told(client, nodes)
        left = await carry_out(client, nodes, _tell, seconds=timeout)
        if not left:
            click.echo("Done. Nothing is claimed or configured any more.")
            return 0
        for obstacle in left:
            click.echo(one_line(f"left: {obstacle.words}"), err=True)
        objects = "1 object is" if len(left) == 1 else f"{len(left)} objects are"
        click.echo(f"{objects} left after {timeout} s. {_AGAIN}", err=True)
        return NO

    return connection.ask(work, kubeconfig, "" if dry_run else f". {_AGAIN}")


async def _check(client: Client, name: str) -> None:
    try:
        await client.get(served(CoreNode), name)
    except NotFoundError:
        raise Failure(
            f"the cluster has no node {name}; the manager cleans up after nodes that are gone"
        ) from None


async def _told(client: Client, nodes: tuple[str, ...]) -> int:
    actions, obstacles = everything(await look(client, nodes))
    if not (actions or obstacles):
        click.echo("Nothing to do: nothing is claimed or configured.")
    for number, action in enumerate(actions, 1):
        click.echo(one_line(f"{number}. {action.words}"))
    for obstacle in obstacles:
        click.echo(one_line(f"stands in the way: {obstacle.words}"))
    return NO if obstacles else 0


def _tell(words: str) -> None:
    click.echo(one_line(words))
