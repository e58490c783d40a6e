"""`laneway capacity`: which devices of the cluster are allocated and free, and what could start.

The command makes the ledger from one look at the API server, with the same rules as the manager, so
that it also works where no manager runs.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import click

from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, USBDeviceClaim, VGPUDevice
from laneway.cli import capacity_question as question
from laneway.cli import capacity_tables as tables
from laneway.cli import connection, fleet, live, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.output import View, show, table_view
from laneway.cli.statuses import ExitStatus
from laneway.cli.suggest import did_you_mean
from laneway.controllers.ledger.snapshot import Snapshot, look
from laneway.core import names
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Request
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import KubeObject, Resource, served
from laneway.views.capacity import (
    plain_answer,
    report,
    shortages,
    shown,
    to_configure,
)
from laneway.views.capacity_document import creatable, stocks_document
from laneway.views.order import natural

_LISTED = 12
_KINDS = (PCIDeviceClaim, SRIOVGPUDevice, USBDeviceClaim, VGPUDevice)


class Question(NamedTuple):
    """Whether VMs can start, as it was typed."""

    resources: dict[str, int]
    nodes: tuple[str, ...]
    vms: int | None
    labels: dict[str, str]
    replacing: tuple[str, ...]
    surge: int
    unavailable: int | None


def show_capacity(
    nodes: tuple[str, ...],
    output: str | None,
    where: ClusterChoice,
    *,
    devices: bool,
    watch: bool,
) -> int:
    """Print the ledger, and with `watch` again after every change. Raises Failure."""

    async def work(client: Client) -> None:
        async def look() -> View:
            seen, gpus = await _look_with_gpus(client)
            return _view(_ledger(seen), gpus, nodes, devices=devices)

        if watch:
            resources: list[Resource[KubeObject]] = [INSTANCES, VIRTUAL_MACHINES]
            resources += [served(kind) for kind in _KINDS]
            await live.follow(client, resources, look, output)
        show(await look(), output)

    connection.ask(work, where)
    return ExitStatus.DONE


def answer(asked: Question, output: str | None, where: ClusterChoice) -> int:
    """Print whether the VMs can start; gives the exit status. Raises Failure."""
    namespace = connection.namespace_of(where) if asked.replacing else ""
    seen, found = connection.ask(_look_with_gpus, where)
    ledger, gpus = _ledger(seen), found or []
    old = question.vms(ledger, asked.replacing, namespace)
    offered = {names.vgpu_resource_name(profile) for gpu in gpus for profile in gpu.status.fits}
    request = Request(
        resources=question.in_full(asked.resources, ledger.homes, offered),
        vms=asked.vms or len(old) or 1,
        nodes=asked.nodes,
        selector=asked.labels,
        replacing=old,
        surge=asked.surge,
        unavailable=asked.unavailable,
    )
    given = can_start(ledger, request)
    lines = [*report(request, given), *to_configure(request, ledger, gpus)]
    view = View(
        document=plain_answer(request, given),
        names=[node for node, _ in given.room],
        text=lambda _: table.paragraph(lines),
    )
    show(view, output)
    return ExitStatus.DONE if given.yes else ExitStatus.NO


async def _look_with_gpus(client: Client) -> tuple[Snapshot, list[SRIOVGPUDevice] | None]:
    """Also the GPUs, of whose profiles some may not be configured yet; None: not known."""
    seen = await _look(client)
    with contextlib.suppress(ForbiddenError, Failure):
        return seen, await fleet.devices(client)
    return seen, None


async def _look(client: Client) -> Snapshot:
    with connection.installed("PCIDeviceClaim"):
        return await look(client)


def _ledger(seen: Snapshot) -> Ledger:
    for why in seen.unknown:
        click.echo(one_line(f"laneway: warning: {why}"), err=True)
    return build(seen.facts)


def _view(
    ledger: Ledger,
    gpus: list[SRIOVGPUDevice] | None,
    nodes: tuple[str, ...],
    *,
    devices: bool,
) -> View:
    """The stocks of these nodes, or of all. Raises Failure for an unknown node."""
    if unknown := [node for node in nodes if node not in ledger.nodes]:
        there = sorted({node for node, _ in ledger.stocks}, key=natural)
        listed = f"Nodes with devices: {', '.join(there[:_LISTED]) or 'none'}"
        meant = did_you_mean(unknown[0], there)
        raise Failure(f"the cluster has no node {unknown[0]}. {meant or listed}")
    stocks = shown(ledger, nodes)
    more = None if gpus is None else creatable(gpus)
    if more and nodes:
        more = {place: count for place, count in more.items() if place[0] in nodes}
    return table_view(
        tables.COLUMNS,
        list(tables.sections(stocks, devices=devices)),
        document=stocks_document(ledger, stocks, more, devices=devices),
        names=[f"{stock.node}/{stock.resource}" for stock in stocks],
        empty="No device is available to VMs. Claim one with 'laneway claim', or configure vGPUs "
        "with 'laneway vgpu set'.",
        after=[] if nodes else list(shortages(ledger)),
    )
