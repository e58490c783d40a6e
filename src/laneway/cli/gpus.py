"""`laneway gpus`: every GPU of the cluster that can be shared, what it carries and what still fits.

A GPU takes one line, and more only where there is more to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from laneway.api import (
    DeviceNode,
    MigConfiguration,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.cli import connection, fleet, live, picture, table, target
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, object_name, show, table_view
from laneway.cli.suggest import did_you_mean
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views import fragmentation, memory, migration, vgpus
from laneway.views.documents import document
from laneway.views.gpus import Gpu, node_of, not_listed
from laneway.views.state import mode, notes, state

COLUMNS = (
    table.Column("GPU"),
    table.Column("BOARD", spare=True),
    table.Column("MODE"),
    table.Column("VGPUS"),
    table.Column("MEMORY", wide=True),
    table.Column("FRAGMENTATION", wide=True),
    table.Column("STATE"),
    table.Column("MIGRATION GROUP", wide=True),
    table.Column("OWNER", wide=True),
    table.Column("NAME", wide=True),
)

_KINDS = (
    SRIOVGPUDevice,
    VGPUDevice,
    PCIDeviceClaim,
    MigConfiguration,
    VGPULayout,
    DeviceNode,
)


class Asked(NamedTuple):
    """Which GPUs are shown, and how much of each."""

    which: str = ""
    """One of them, as `NODE/ADDRESS` or by name."""
    node: str = ""
    verbose: bool = False


def show_gpus(asked: Asked, output: str | None, where: ClusterChoice, *, watch: bool) -> None:
    """Print the GPUs, and with `watch` again after every change. Raises Failure."""

    async def work(client: Client) -> None:
        async def look() -> View:
            return await _look(client, asked, watch=watch)

        if watch:
            await live.follow(client, [served(kind) for kind in _KINDS], look, output)
        show(await look(), output)

    connection.ask(work, where)


async def _look(client: Client, asked: Asked, *, watch: bool) -> View:
    if asked.which:
        return one_view(await target.find(client, asked.which))
    seen = await fleet.look(client, asked.node)
    if asked.node and not seen.gpus and not watch:
        known = {node_of(device) for device in await fleet.devices(client)}
        raise Failure(
            f"node {asked.node} has no GPU that can be shared. "
            f"{did_you_mean(asked.node, known) or 'laneway gpus lists all GPUs.'} 'kubectl get "
            "nodes.devices.harvesterhci.io' lists the nodes with an agent"
        )
    return view(seen, verbose=asked.verbose)


def view(seen: fleet.Fleet, *, verbose: bool = False) -> View:
    """All GPUs of a look at the cluster."""
    return table_view(
        COLUMNS,
        list(sections(seen, verbose=verbose)),
        document={"gpus": [document(gpu) for gpu in seen.gpus]},
        names=[object_name("SRIOVGPUDevice", gpu.name) for gpu in seen.gpus],
        empty="No GPU that can be shared. 'kubectl get nodes.devices.harvesterhci.io' lists the "
        "nodes with an agent.",
        warnings=seen.unreadable,
    )


def one_view(gpu: Gpu) -> View:
    """One GPU, with a picture of its memory."""

    def text(wide: bool) -> str:
        seen = fleet.Fleet(gpus=(gpu,))
        shown = table.text(COLUMNS, list(sections(seen, verbose=True)), wide=wide)
        return shown + "".join(f"{line}\n" for line in ("", *_memory(gpu)))

    return View(
        document=document(gpu),
        names=[object_name("SRIOVGPUDevice", gpu.name)],
        text=text,
        warnings=not_listed(gpu.unreadable),
    )


def _memory(gpu: Gpu) -> Iterator[str]:
    """A title, and the picture of the memory; why there is none where it is not known."""
    found = memory.picture(gpu)
    yield memory.title(found)
    if found is not None:
        yield from picture.lines(found)


def sections(seen: fleet.Fleet, *, verbose: bool = False) -> Iterator[table.Section]:
    """A section for every node."""
    for node, on_node in groupby(seen.gpus, key=lambda gpu: gpu.node):
        found = list(on_node)
        stale = f" ({found[0].stale}; what follows may be out of date)" if found[0].stale else ""
        rows = [row for gpu in found for row in _rows(gpu, verbose=verbose)]
        yield table.Section(f"{node or 'no node'}{stale}", tuple(rows))


def _rows(gpu: Gpu, *, verbose: bool) -> Iterator[table.Row]:
    carrying = sum(bool(vgpu.status.vgpu_status) for vgpu in gpu.vgpus)
    there = f"{carrying} of {len(gpu.vgpus)}" if gpu.vgpus else ""
    cells = (
        gpu.address,
        gpu.board,
        mode(gpu),
        there,
        memory.allocated(gpu),
        fragmentation.percent(gpu),
        state(gpu),
        migration.words(gpu),
        gpu.device.status.owner,
        gpu.name,
    )
    listed = vgpus.lines(gpu.vgpus) if verbose else ()
    yield table.Row(cells, (*notes(gpu), *listed))
