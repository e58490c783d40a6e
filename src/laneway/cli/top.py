"""`laneway top`: the GPUs of the cluster live, each with its vGPUs and who holds them."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.cli import connection, fleet, live, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, object_name, show, table_view
from laneway.cli.suggest import did_you_mean
from laneway.controllers.devices.holder import holder
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.documents import document
from laneway.views.gpus import Gpu, node_of
from laneway.views.memory import gib, occupancy
from laneway.views.state import mode

COLUMNS = (
    table.Column("GPU / VGPU"),
    table.Column("PROFILE"),
    table.Column("MEMORY"),
    table.Column("UTIL"),
    table.Column("HOLDER"),
    table.Column("POD", wide=True),
    table.Column("NAME", wide=True),
)
_KINDS = (SRIOVGPUDevice, VGPUDevice, MigConfiguration)


def show_top(node: str, output: str | None, where: ClusterChoice, *, once: bool) -> None:
    """Print the GPUs once, or again after every change. Raises Failure."""

    async def work(client: Client) -> None:
        async def look() -> View:
            return view(await fleet.look(client, node))

        if node:
            known = {node_of(device) for device in await fleet.devices(client)}
            if node not in known:
                meant = did_you_mean(node, known) or "'laneway gpus' lists all GPUs."
                raise Failure(f"node {node} has no GPU that can be shared. {meant}")
        if once:
            show(await look(), output)
        else:
            await live.follow(client, [served(kind) for kind in _KINDS], look, output)

    connection.ask(work, where)


def view(seen: fleet.Fleet) -> View:
    """All GPUs of a look at the cluster, each with its vGPUs below it."""
    return table_view(
        COLUMNS,
        [table.Section(_title(gpu), tuple(_rows(gpu))) for gpu in seen.gpus],
        document={"gpus": [document(gpu) for gpu in seen.gpus]},
        names=[object_name("SRIOVGPUDevice", gpu.name) for gpu in seen.gpus],
        empty="No GPU that can be shared. 'kubectl get nodes.devices.harvesterhci.io' lists the "
        "nodes with an agent.",
        after=["", _sums(seen)] if seen.gpus else [],
        warnings=seen.unreadable,
    )


def _title(gpu: Gpu) -> str:
    stale = f" ({gpu.stale}; this may be out of date)" if gpu.stale else ""
    return f"{gpu.title}  {gpu.board or 'GPU'}  {mode(gpu)}{stale}"


def _rows(gpu: Gpu) -> Iterator[table.Row]:
    found = occupancy(gpu)
    memory = ""
    if found is not None:
        memory = f"{gib(found.allocated_mib)} of {gib(found.mib)}"
    claimed = f"claimed by {gpu.claim.spec.user_name or 'an unnamed user'}" if gpu.claim else ""
    yield table.Row(("whole GPU", "", memory, "", claimed, "", gpu.name))
    for vgpu in gpu.vgpus:
        if vgpu.status.vgpu_status:
            yield _vgpu(vgpu)


def _vgpu(vgpu: VGPUDevice) -> table.Row:
    profile, has = vgpu.status.configure_vgpu_type_name, vgpu.status.allocation
    mib = framebuffer_mib(profile)
    cells = (
        vgpu.spec.address,
        short_name(profile),
        gib(mib) if mib else "",
        "",
        holder(vgpu.status.allocation),
        "" if has is None else has.pod,
        vgpu.metadata.name,
    )
    return table.Row(cells, child=True)


def _sums(seen: fleet.Fleet) -> str:
    vgpus = [vgpu for gpu in seen.gpus for vgpu in gpu.vgpus if vgpu.status.vgpu_status]
    held = sum(vgpu.status.allocation is not None for vgpu in vgpus)
    counts = (
        ("node", len({gpu.node for gpu in seen.gpus})),
        ("GPU", len(seen.gpus)),
        ("vGPU", len(vgpus)),
    )
    words = [f"{count} {what}{'s' * (count != 1)}" for what, count in counts]
    return f"{', '.join(words)}, {held} held."
