"""`laneway pools`: the devices of guest clusters' machine pools."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import dry_run_option, output_option, read_by
from laneway.cli.groups import Group

if TYPE_CHECKING:
    from laneway.cli.pools.reaching import Pools

_MOST = 100_000


def pools_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The two clusters, or files; the command gets them as `pools`."""

    @functools.partial(
        cluster_options, namespaces="The namespace of the guest clusters. Default: all."
    )
    @click.option(
        "--harvester-kubeconfig",
        metavar="PATH",
        type=click.Path(),
        help="The kubeconfig file of the Harvester cluster. Default: Rancher's proxy, with the "
        "same credentials.",
    )
    @click.option(
        "--harvester-context",
        metavar="NAME",
        help="The context of the Harvester cluster, in --harvester-kubeconfig or else in "
        "--kubeconfig.",
    )
    @click.option(
        "-f",
        "--filename",
        "files",
        metavar="PATH",
        multiple=True,
        type=click.Path(),
        help="A YAML file with Clusters and their machine configurations, instead of the "
        "management cluster. Repeat the option for several files.",
    )
    @functools.wraps(command)
    def packed(
        *args: Any,
        where: ClusterChoice,
        harvester_kubeconfig: str | None,
        harvester_context: str | None,
        files: tuple[str, ...],
        **given: Any,
    ) -> Any:
        from laneway.cli.pools.reaching import Pools

        chosen = ClusterChoice(harvester_kubeconfig, harvester_context)
        if files and not (harvester_kubeconfig or harvester_context):
            chosen = where
        return command(*args, pools=Pools(where, chosen, files), **given)

    return packed


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway pools list
    laneway pools set guest gpu A2-4Q=1 --machines 3
    laneway pools show guest gpu
""",
)
def pools() -> None:
    """Show and set the devices of machine pools, and check that all machines can start.

    The pools are those of guest clusters that Rancher creates on Harvester. --kubeconfig and
    --context name Rancher's management cluster.
    """


@pools.command("list", epilog="\b\nExample:\n    laneway pools list -o wide\n")
@output_option
@pools_options
def list_pools(*, output: str | None, pools: Pools) -> int:
    """List the pools, with their devices, and whether they fit."""
    from laneway.cli.pools.showing import list_pools as run

    return run(pools, output)


@pools.command(
    "show",
    epilog="\b\nExamples:\n    laneway pools show guest\n    laneway pools show guest gpu\n",
)
@click.argument("cluster", metavar="CLUSTER")
@click.argument("pool", metavar="[POOL]", required=False)
@output_option
@pools_options
def show(*, cluster: str, pool: str | None, output: str | None, pools: Pools) -> int:
    """Show the machines of pools, in the order in which they go.

    Machines go when a rolling update replaces them, or when the pool gets smaller.
    """
    from laneway.cli.pools.showing import show_pool

    return show_pool(pools, cluster, pool or "", output)


@pools.command(
    "check",
    epilog="""\b
Examples:
    laneway pools check
    laneway pools check guest
    laneway pools check guest -f cluster.yaml --harvester-kubeconfig harvester.yaml

Exit status: 0 all machines can start, 3 not all can, 1 the command failed.
""",
)
@click.argument("cluster", metavar="[CLUSTER]", required=False)
@output_option
@pools_options
def check(*, cluster: str | None, output: str | None, pools: Pools) -> int:
    """Check whether all machines of the pools can start.

    The command warns where they can, and a rolling update has no room for the machine that it
    creates before it deletes an old one.
    """
    from laneway.cli.pools.showing import check_pools

    return check_pools(pools, cluster or "", output)


@pools.command(
    "set",
    epilog="""\b
Examples:
    laneway pools set guest gpu A2-4Q=1
    laneway pools set guest gpu A2-4Q=1 nvidia.com/AD104GL_L4=1 --machines 3
    laneway pools set guest gpu --no-devices
    laneway pools set guest gpu A2-8Q=1 -f cluster.yaml --harvester-kubeconfig harvester.yaml
""",
)
@click.argument("cluster", metavar="CLUSTER")
@click.argument("pool", metavar="POOL")
@click.argument(
    "devices",
    metavar="[RESOURCE[=COUNT]]...",
    nargs=-1,
    callback=read_by("laneway.cli.pools.setting:devices"),
    shell_complete=completion.profiles,
)
@click.option("--no-devices", is_flag=True, help="Remove all devices from the machines.")
@click.option(
    "--machines",
    metavar="NUMBER",
    type=click.IntRange(0, _MOST),
    help="The number of machines. Default: as many as now.",
)
@dry_run_option
@pools_options
def set_pool(
    *,
    cluster: str,
    pool: str,
    devices: dict[str, int],
    no_devices: bool,
    machines: int | None,
    dry_run: bool,
    pools: Pools,
) -> int:
    """Set the devices and the number of a pool's machines.

    The command changes nothing if not all machines could start. When the devices of a pool change,
    Rancher replaces its machines, one after the other. With --filename, the files are changed.
    """
    from laneway.cli.pools.setting import Request
    from laneway.cli.pools.setting import set_pool as run

    if devices and no_devices:
        raise click.UsageError("--no-devices and devices exclude each other")
    if not devices and not no_devices and machines is None:
        raise click.UsageError("name devices, --no-devices or --machines")
    wanted = devices if devices or no_devices else None
    return run(pools, Request(cluster, pool, wanted, machines, dry_run))
