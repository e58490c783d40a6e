"""`laneway export` and `laneway plan`."""

from __future__ import annotations

import click
from click.core import ParameterSource

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.history import ca_file_option, url_option
from laneway.cli.commands.options import (
    NumberRange,
    output_option,
    plain_output_option,
    timeout_option,
)
from laneway.cli.groups import Group

_MOVE_SECONDS = 600


@click.command(
    epilog="""\b
Examples:
    laneway export fleet.yaml
    laneway export --anonymous fleet.json
    laneway export - | laneway plan what-if --from - --vms '3x L40S-24Q'
"""
)
@click.argument("file", metavar="FILE", default="-", type=click.Path())
@click.option(
    "--anonymous",
    is_flag=True,
    help="Replace the names and labels of nodes and VMs by neutral ones.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@cluster_options
def export(*, file: str, anonymous: bool, force: bool, where: ClusterChoice) -> None:
    """Write nodes, GPUs, vGPUs and VMs of the cluster to FILE, to plan elsewhere.

    A FILE that ends in .json is JSON, any other is YAML; - is standard output. The file has no
    serial numbers, UUIDs or secrets.
    """
    from laneway.cli.planning.sources import export as run

    run(file, where, neutral=anonymous, force=force)


source_option = click.option(
    "--from",
    "source",
    metavar="SOURCE",
    help="A file of 'laneway export' or 'laneway capture', - for standard input, or a fleet in "
    "words such as '8x l40s, 4x a40*2'. Default: the live cluster.",
)


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway plan what-if --vms '3x L40S-24Q'
    laneway plan moves L40S-24Q
    laneway plan moves L40S-24Q --apply
    laneway plan layout L40S-24Q=4 L40S-8Q=30
    laneway plan mix L40S-24Q=1 L40S-8Q=3
""",
)
def plan() -> None:
    """Answer what would fit if the cluster changed.

    Nothing is changed, unless you say so with `moves --apply`.
    """


@plan.command(
    "what-if",
    epilog="""\b
Examples:
    laneway plan what-if --vms '3x L40S-24Q'
    laneway plan what-if --from fleet.yaml --leave node1
    laneway plan what-if --from '8x l40s' --vms '10x L40S-12Q=2'
    laneway plan what-if --vms '3x L40S-24Q on zone=a'
    laneway plan what-if --add-nodes '2x l40s' --mode node1/0000:08:00.0=MixedSize
    laneway plan what-if --change pool=web:L40S-12Q
    laneway plan what-if --mode node1/0000:08:00.0=MIGBacked --vms A100-1-5C
    laneway plan what-if --instances node1/0000:08:00.0=1g.5gb=7 --vms mig-1g.5gb

Exit status: 0 yes, 3 no, 1 the question could not be answered.
""",
)
@source_option
@click.option(
    "--vms",
    multiple=True,
    metavar="'[NUMBERx] RESOURCE[=COUNT],... [on KEY=VALUE,...]'",
    help="Add VMs that request these devices each, on nodes with these labels. Repeat the option "
    "for other VMs.",
)
@click.option(
    "--leave",
    multiple=True,
    metavar="NODE",
    shell_complete=completion.nodes,
    help="Drain or lose this node. Repeat the option for several nodes.",
)
@click.option(
    "--mode",
    multiple=True,
    metavar="GPU=MODE",
    help="Set the mode of a GPU, by name or as NODE/ADDRESS. Repeat the option for several GPUs.",
)
@click.option(
    "--instances",
    multiple=True,
    metavar="GPU=INSTANCE[=COUNT],...",
    help="Set the mode of a GPU to MIG, with these GPU instances. Repeat the option for several "
    "GPUs.",
)
@click.option(
    "--add-nodes", "nodes", multiple=True, metavar="WORDS", help="Add nodes, such as '2x hgx-h100'."
)
@click.option(
    "--add-gpus",
    "gpus",
    multiple=True,
    metavar="'NODE:NUMBERx BOARD'",
    help="Add GPUs to a node, such as 'node1:2x l40s'.",
)
@click.option(
    "--change",
    "requests",
    multiple=True,
    metavar="VM:RESOURCE[=COUNT],...",
    help="Have VMs request these devices instead. VM is NAMESPACE/NAME, or KEY=VALUE for a label.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="PATH",
    type=click.Path(),
    help="A YAML file of changes, which come first. Repeat the option for several files.",
)
@plain_output_option
@cluster_options
def what_if(
    *,
    source: str | None,
    vms: tuple[str, ...],
    leave: tuple[str, ...],
    mode: tuple[str, ...],
    instances: tuple[str, ...],
    nodes: tuple[str, ...],
    gpus: tuple[str, ...],
    requests: tuple[str, ...],
    files: tuple[str, ...],
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Say whether VMs have room after changes, where each goes, and why not.

    Without changes, the question is about the VMs that wait today.
    """
    from laneway.cli.planning.asked import Asked
    from laneway.cli.planning.what_if import answer

    asked = Asked(vms, leave, mode, instances, nodes, gpus, requests, files)
    return answer(asked, source, output, where)


@plan.command(
    epilog="""\b
Examples:
    laneway plan moves L40S-24Q
    laneway plan moves --from fleet.yaml --moves 2 L40S-48Q=2
    laneway plan moves L40S-24Q --restart --apply

Exit status: 0 they fit, 3 they do not or it is not known, 1 the question could not be answered, or
the moves ended early.
"""
)
@click.argument("profiles", metavar="PROFILE[=COUNT]...", nargs=-1, required=True)
@source_option
@click.option(
    "--moves",
    "limit",
    type=click.IntRange(0, 6),
    default=4,
    show_default=True,
    help="The most moves to consider.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Consider to restart running VMs that cannot be live-migrated.",
)
@click.option(
    "--apply",
    "applied",
    is_flag=True,
    help="Make the moves in the live cluster, one by one, after a question.",
)
@click.option("--yes", is_flag=True, help="With --apply: ask no question.")
@timeout_option(_MOVE_SECONDS, "With --apply: how long each move may take.")
@plain_output_option
@cluster_options
def moves(
    *,
    profiles: tuple[str, ...],
    source: str | None,
    limit: int,
    restart: bool,
    applied: bool,
    yes: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Find the least moves of VMs after which vGPUs of these profiles fit.

    A live-migratable VM moves to another node, and vGPUs of other GPUs are reserved for a stopped
    one. With --restart, other running VMs may be stopped and started on another GPU. No other VM is
    touched.

    With --apply, the command makes the moves with your own rights. Before each it reads the cluster
    again, and stops if the rest no longer holds. A move that does not work out is undone.
    """
    from laneway.cli.planning.moves import answer
    from laneway.cli.planning.moving import Apply, again

    typed = {
        option: value
        for option, name, value in (("--moves", "limit", limit), ("--timeout", "timeout", timeout))
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if not applied:
        if yes:
            raise click.UsageError("--yes answers the question of --apply, which is not given")
        if "--timeout" in typed:
            raise click.UsageError("--timeout bounds the moves of --apply, which is not given")
        return answer(profiles, source, limit, output, where, restart=restart)
    if source is not None:
        raise click.UsageError(
            "--apply changes the live cluster, and --from names another fleet. Leave one of them "
            "out"
        )
    apply = Apply(yes, timeout, again(profiles, where, typed, restart=restart))
    return answer(profiles, source, limit, output, where, restart=restart, apply=apply)


@plan.command(
    epilog="""\b
Examples:
    laneway plan layout --from '8x l40s' L40S-24Q=4 L40S-8Q=30
    laneway plan layout -o yaml L40S-24Q=4 | kubectl apply -f -
    laneway plan layout --since 30d

Exit status: 0 all is served, 3 not all, 1 the question could not be answered.
"""
)
@click.argument("profiles", metavar="[PROFILE=COUNT]...", nargs=-1)
@source_option
@click.option(
    "--since",
    metavar="TIME",
    default="",
    help="Without profiles: also serve the most vGPUs that were in use at a time after this time, "
    "such as 30d, 12h or 2026-01-31T08:00:00Z. It comes from the history of the web interface.",
)
@url_option
@ca_file_option
@click.option(
    "--seconds",
    type=NumberRange(0, 3600, min_open=True),
    default=10.0,
    show_default=True,
    help="The most time for the search.",
)
@click.option("--name", default="plan", show_default=True, help="Begins the names of the layouts.")
@output_option
@cluster_options
def layout(
    *,
    profiles: tuple[str, ...],
    source: str | None,
    since: str,
    url: str,
    ca_file: str,
    seconds: float,
    name: str,
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Find the modes and vGPUs of GPUs that serve most of a demand.

    vGPUs in use stay. The demand comes in addition to them. Without profiles, it is what the VMs
    request that wait. -o yaml prints VGPULayouts that can be applied.
    """
    from laneway.cli.planning.layout import answer
    from laneway.cli.planning.seen import Past

    past = Past(since, url, ca_file)
    return answer(
        profiles, source, past=past, seconds=seconds, name=name, output=output, where=where
    )


@plan.command(
    epilog="""\b
Examples:
    laneway plan mix --from '4x l40s' L40S-24Q=1 L40S-8Q=3
    laneway plan mix --load 0.9 --lifetime 8h --wait 30m
"""
)
@click.argument("profiles", metavar="[PROFILE=SHARE]...", nargs=-1)
@source_option
@click.option(
    "--load",
    type=NumberRange(0.05, 2),
    default=0.8,
    show_default=True,
    help="Memory requested at a time on average, as a share of the memory of the GPUs.",
)
@click.option(
    "--lifetime",
    metavar="TIME",
    default="1d",
    show_default=True,
    help="How long a vGPU is in use on average, such as 90m, 8h or 7d.",
)
@click.option(
    "--wait",
    metavar="TIME",
    default="0s",
    show_default=True,
    help="How long a request waits for room before it is refused.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    help="How many times to simulate, each with other requests.",
)
@plain_output_option
@cluster_options
def mix(
    *,
    profiles: tuple[str, ...],
    source: str | None,
    load: float,
    lifetime: str,
    wait: str,
    seeds: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Simulate requests for vGPUs over time, by mode and policy.

    Without profiles, the mix is that of the VMs and pods of the source.
    """
    from laneway.cli.planning.mix import Times, answer

    times = Times(lifetime, wait)
    answer(profiles, source, load=load, times=times, seeds=seeds, output=output, where=where)
