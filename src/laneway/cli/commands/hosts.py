"""`laneway hosts`: the nodes of a cluster that HostPolicies prepare."""

from __future__ import annotations

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import dry_run_option, output_option, watch_option
from laneway.cli.groups import Group


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway hosts list
    laneway hosts list node1
    laneway hosts reboot node1
""",
)
def hosts() -> None:
    """Show how far nodes are prepared for devices, and let them reboot.

    HostPolicies say what hosts need: kubectl get hostpolicies. 'laneway host prepare' prepares this
    host, without a cluster.
    """


@hosts.command(
    "list",
    short_help="List the nodes that HostPolicies select.",
    epilog="""\b
Examples:
    laneway hosts list
    laneway hosts list node1
    laneway hosts list --watch
""",
)
@click.argument("node", metavar="[NODE]", required=False, shell_complete=completion.nodes)
@output_option
@watch_option
@cluster_options
def list_hosts(*, node: str | None, output: str | None, watch: bool, where: ClusterChoice) -> None:
    """List the nodes that HostPolicies select, with the stage of each.

    With NODE, the command lists each requirement of the node.
    """
    from laneway.cli.hosts import show_hosts

    show_hosts(node or "", output, where, watch=watch)


@hosts.command("reboot", epilog="\b\nExample:\n    laneway hosts reboot node1\n")
@click.argument("node", metavar="NODE", shell_complete=completion.nodes)
@dry_run_option
@cluster_options
def reboot(*, node: str, dry_run: bool, where: ClusterChoice) -> None:
    """Let a node reboot that waits for it.

    The node reboots once: as soon as none of its policies is paused, no VM would be stopped that
    must not be, and few enough other nodes are away. It is cordoned and drained before.
    """
    from laneway.cli.hosts import reboot as allow

    allow(node, where, dry_run=dry_run)
