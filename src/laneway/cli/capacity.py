"""`laneway capacity`: who has which device of the cluster, what is free, and what could start.

The command makes the ledger from one look at the API server, with the same rules as the manager, so
that it answers also where no manager runs.
"""

from __future__ import annotations

import click

from laneway.cli import capacity_question as question
from laneway.cli import capacity_tables as tables
from laneway.cli import connection, table
from laneway.cli.errors import Failure, one_line
from laneway.cli.labels import natural
from laneway.cli.output import output_option, print_json
from laneway.controllers.ledger.snapshot import Snapshot, look
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Request
from laneway.kube.client import Client

NO = 3
"""Exit status where the answer is no."""

_LISTED = 12


@click.command(
    epilog="""\b
Examples:
    laneway capacity
    laneway capacity --node node1 --devices
    laneway capacity -o json | jq '.resources[] | select(.free > 0)'
    laneway capacity A2-2Q=2
    laneway capacity nvidia.com/NVIDIA_A2-2Q=2 nvidia.com/AD104GL_L4 --machines 3
    laneway capacity A2-4Q --replacing default/pool=web --surge 1

\b
Exit status with RESOURCE: 0 yes, 3 no, 1 the question could not be answered.
"""
)
@click.argument(
    "wanted",
    metavar="[RESOURCE[=COUNT]]...",
    nargs=-1,
    callback=lambda _context, _argument, values: question.desired_states(values),
)
@click.option(
    "--node",
    "nodes",
    metavar="NAME",
    multiple=True,
    help="Only this node; may be given several times.",
)
@click.option(
    "--devices", is_flag=True, help="List every device, with its user or why it is unavailable."
)
@output_option("Text to read, or JSON.")
@click.option(
    "--machines",
    metavar="NUMBER",
    type=click.IntRange(1, question.MOST),
    help="How many VMs are to start; otherwise one, or as many as are replaced.",
)
@click.option(
    "--selector",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    callback=lambda _context, _option, values: question.labels(values),
    help="A label that their nodes must have; may be given several times.",
)
@click.option(
    "--replacing",
    metavar="NAMESPACE/NAME",
    multiple=True,
    help=(
        "A VM that they replace; NAMESPACE/KEY=VALUE means all with that label. May be given "
        "several times."
    ),
)
@click.option(
    "--surge",
    metavar="NUMBER",
    type=click.IntRange(0, question.MOST),
    default=0,
    help="Replace them one by one: so many more VMs may run meanwhile.",
)
@click.option(
    "--unavailable",
    metavar="NUMBER",
    type=click.IntRange(0, question.MOST),
    help=(
        "Replace them one by one: so many fewer VMs may run meanwhile. Otherwise all are "
        "replaced at once, or with --surge none may be missing."
    ),
)
@connection.kubeconfig_option
def capacity(
    *,
    wanted: dict[str, int],
    nodes: tuple[str, ...],
    devices: bool,
    output: str,
    vms: int | None,
    labels: dict[str, str],
    replacing: tuple[str, ...],
    surge: int,
    unavailable: int | None,
    kubeconfig: str | None,
) -> int:
    """Show how the cluster's devices are allocated, and what is free; or ask what could start.

    HELD are devices of running VMs, RESERVED those of stopped VMs, WANTED those of VMs about to
    start, UNHEALTHY those that are not allocated and unavailable. Together with FREE they are
    TOTAL.

    With RESOURCE, the question is whether VMs that each request that much can start. A vGPU's
    profile may be written short, A2-2Q. With --replacing, only what the new VMs request beyond the
    old ones counts.
    """
    asking = (vms, labels, replacing, surge, unavailable)
    if not wanted and any(asking):
        raise click.UsageError(
            "--machines, --selector, --replacing, --surge and --unavailable belong to a question: "
            "name a RESOURCE, too"
        )
    if wanted and devices:
        raise click.UsageError("--devices shows devices; leave RESOURCE out for it")
    if unavailable == 0 and not surge and replacing:
        raise click.UsageError("nothing could be replaced: let --surge or --unavailable be 1")
    seen = connection.ask(_look, kubeconfig)
    ledger = build(seen.facts)
    for why in seen.unknown:
        click.echo(one_line(f"laneway: warning: {why}"), err=True)
    if not wanted:
        _show(ledger, nodes, output, devices=devices)
        return 0
    old = question.vms(ledger, replacing)
    request = Request(
        resources=question.in_full(wanted, ledger.homes),
        vms=vms or len(old) or 1,
        nodes=nodes,
        selector=labels,
        replacing=old,
        surge=surge,
        unavailable=unavailable,
    )
    answer = can_start(ledger, request)
    if output == "json":
        print_json(question.plain(request, answer))
    else:
        for line in question.told(request, answer):
            indent = " " * (len(line) - len(line.lstrip(" ")))
            click.echo(indent + one_line(line))
    return 0 if answer.yes else NO


async def _look(client: Client) -> Snapshot:
    with connection.installed("PCIDeviceClaim"):
        return await look(client)


def _show(ledger: Ledger, nodes: tuple[str, ...], output: str, *, devices: bool) -> None:
    stocks = tables.shown(ledger, nodes)
    if unknown := [node for node in nodes if node not in ledger.nodes]:
        there = sorted({node for node, _ in ledger.stocks}, key=natural)
        raise Failure(
            f"there is no node {unknown[0]}; nodes with devices: "
            f"{', '.join(there[:_LISTED]) or 'none'}"
        )
    if output == "json":
        print_json(tables.plain(ledger, stocks, devices=devices))
        return
    if stocks:
        sections = list(tables.sections(stocks, devices=devices))
        table.echo(tables.COLUMNS, sections)
    else:
        click.echo(
            "No device is available to VMs. Claim one, or configure vGPUs: 'laneway vgpu set'."
        )
    if not nodes:
        for line in tables.shortages(ledger):
            click.echo(one_line(line))
