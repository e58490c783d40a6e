"""`laneway history`: who held which device."""

from __future__ import annotations

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import output_option

url_option = click.option(
    "--url",
    metavar="URL",
    envvar="LANEWAY_URL",
    show_envvar=True,
    default="http://127.0.0.1:7480",
    show_default=True,
    help="The address of the web interface, which keeps the history.",
)
ca_file_option = click.option(
    "--ca-file",
    metavar="PATH",
    default="",
    help="The authorities of its certificate (PEM). Default: those of the system.",
)


@click.command(
    epilog="""\b
Examples:
    laneway history
    laneway history --vm default/web
    laneway history --device node1-000008004 --since 7d
    laneway history --node node1 -o json
"""
)
@url_option
@ca_file_option
@click.option(
    "--vm",
    metavar="[NAMESPACE/]NAME",
    default="",
    help="Only this VM.",
)
@click.option("--device", metavar="NAME", default="", help="Only this device.")
@click.option(
    "--node",
    metavar="NAME",
    default="",
    shell_complete=completion.nodes,
    help="Only devices of this node.",
)
@click.option(
    "--since",
    metavar="TIME",
    default="",
    help="Only what was held after this time: 2026-01-31T08:00:00Z, or 7d, 12h, 30m ago.",
)
@click.option(
    "--until", metavar="TIME", default="", help="Only what was held before this time, alike."
)
@output_option
@cluster_options
def history(
    *,
    url: str,
    ca_file: str,
    vm: str,
    device: str,
    node: str,
    since: str,
    until: str,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Show who held which device, the newest first, and when nothing was observed.

    The command asks the web interface with the token of your kubeconfig. You see the VMs and pods
    that you may list.
    """
    from laneway.cli.history import Asked, show_history

    show_history(Asked(vm, device, node, since, until), url, ca_file, output, where)
