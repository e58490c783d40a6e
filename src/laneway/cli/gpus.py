"""`laneway gpus`: every GPU of the cluster that can be shared, what it carries and what still fits.

A GPU takes one line, and more only where there is more to know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_PLANNED,
    MIG_OUT_OF_SYNC,
    LayoutGpu,
    MigConfiguration,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.cli import connection, fleet, gpu_view, live, picture, table, target
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.order import natural
from laneway.cli.output import View, object_name, show, table_view
from laneway.cli.profile_names import counts, room
from laneway.cli.suggest import did_you_mean
from laneway.controllers.devices.holder import holder
from laneway.core.mig.profiles import bare_name
from laneway.core.phrases import short_name
from laneway.kube.client import Client
from laneway.kube.resource import served

NEXT = {
    "NoGpuInstances": (
        "MIG mode is on; next: laneway vgpu set {title} PROFILE=COUNT, which makes the GPU "
        "instances too."
    ),
    "MigOnly": (
        "The virtual functions are there, and this model offers vGPUs only in MIG mode; next: "
        "laneway gpu enable {title} --mode MIGBacked"
    ),
}
"""Reasons of a GPU that is as desired and offers no vGPU yet, and the next step."""

COLUMNS = (
    table.Column("GPU"),
    table.Column("BOARD", spare=True),
    table.Column("MODE"),
    table.Column("VGPUS"),
    table.Column("MEMORY", wide=True),
    table.Column("STATE"),
    table.Column("OWNER", wide=True),
    table.Column("NAME", wide=True),
)

_KINDS = (SRIOVGPUDevice, VGPUDevice, PCIDeviceClaim, MigConfiguration, VGPULayout)


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
        known = {fleet.node_of(device) for device in await fleet.devices(client)}
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
        document={"gpus": [gpu_view.document(gpu) for gpu in seen.gpus]},
        names=[object_name("SRIOVGPUDevice", gpu.name) for gpu in seen.gpus],
        empty="No GPU that can be shared. 'kubectl get nodes.devices.harvesterhci.io' lists the "
        "nodes with an agent.",
        warnings=seen.unreadable,
    )


def one_view(gpu: fleet.Gpu) -> View:
    """One GPU, with a picture of its memory."""

    def text(wide: bool) -> str:
        seen = fleet.Fleet(gpus=(gpu,))
        shown = table.text(COLUMNS, list(sections(seen, verbose=True)), wide=wide)
        return shown + "".join(f"{line}\n" for line in ("", *memory(gpu)))

    document = gpu_view.document(gpu)
    return View(
        document=document,
        names=[object_name("SRIOVGPUDevice", gpu.name)],
        text=text,
        warnings=fleet.not_listed(gpu.unreadable),
    )


def memory(gpu: fleet.Gpu) -> Iterator[str]:
    """A title, and the picture of the memory; why there is none where it is not known."""
    found = gpu_view.occupancy(gpu)
    if found is None:
        yield "Memory: not known."
        return
    yield f"Memory: {picture.gib(found.allocated_mib)} of {picture.gib(found.mib)} allocated"
    holders = {vgpu.spec.address: holder(vgpu.status.allocation) for vgpu in gpu.vgpus}
    yield from picture.lines(found, holders)


def sections(seen: fleet.Fleet, *, verbose: bool = False) -> Iterator[table.Section]:
    """A section for every node."""
    for node, on_node in groupby(seen.gpus, key=lambda gpu: gpu.node):
        found = list(on_node)
        stale = f" ({found[0].stale}; what follows may be out of date)" if found[0].stale else ""
        rows = [row for gpu in found for row in _rows(gpu, verbose=verbose)]
        yield table.Section(f"{node or 'no node'}{stale}", tuple(rows))


def _rows(gpu: fleet.Gpu, *, verbose: bool) -> Iterator[table.Row]:
    carrying = sum(bool(vgpu.status.vgpu_status) for vgpu in gpu.vgpus)
    vgpus = f"{carrying} of {len(gpu.vgpus)}" if gpu.vgpus else ""
    cells = (
        gpu.address,
        gpu.board,
        mode(gpu),
        vgpus,
        allocated(gpu),
        state(gpu),
        gpu.device.status.owner,
        gpu.name,
    )
    listed = vgpu_lines(gpu.vgpus) if verbose else ()
    yield table.Row(cells, (*notes(gpu), *listed))


def allocated(gpu: fleet.Gpu) -> str:
    """`8 of 16 GiB`; empty where it is not known."""
    found = gpu_view.occupancy(gpu)
    if found is None:
        return ""
    return f"{picture.gib(found.allocated_mib).removesuffix(' GiB')} of {picture.gib(found.mib)}"


def vgpu_lines(vgpus: Sequence[VGPUDevice]) -> list[str]:
    """A line for every vGPU that exists or is desired: address, profile, object and holder."""
    return [
        f"{vgpu.spec.address} {_vgpu(vgpu)}: vgpudevice/{vgpu.metadata.name}{_held(vgpu)}"
        for vgpu in vgpus
        if vgpu.status.vgpu_status or vgpu.spec.enabled
    ]


def _held(vgpu: VGPUDevice) -> str:
    held_by = holder(vgpu.status.allocation)
    return f", held by {held_by}" if held_by else ""


def _vgpu(vgpu: VGPUDevice) -> str:
    found, desired = vgpu.status.configure_vgpu_type_name, vgpu.spec.vgpu_type_name
    is_there = short_name(found) or "?" if vgpu.status.vgpu_status else ""
    if not vgpu.spec.enabled or desired == found:
        return is_there
    ready = find_condition(vgpu.status.conditions, "Ready")
    why = f" ({ready.reason})" if ready is not None and ready.reason else ""
    return f"{is_there or 'none'}, desired {short_name(desired) or '?'}{why}"


def mode(gpu: fleet.Gpu) -> str:
    """The mode that it is in, and the desired one where that differs."""
    found, desired = gpu.device.status.mode, gpu.device.spec.mode
    return f"{found or '?'}, desired {desired}" if desired and desired != found else found


def state(gpu: fleet.Gpu) -> str:
    """`Enabled` or `Disabled`, or the reason why it is not as desired."""
    answer = gpu.ready
    desired = "enabled" if gpu.device.spec.enabled else "disabled"
    if answer is None:
        return f"to be {desired}: no agent has answered yet"
    if answer.status == "True":
        return answer.reason
    if answer.reason in NEXT:
        return desired.capitalize()
    return f"to be {desired}: {answer.reason or answer.status}"


def notes(gpu: fleet.Gpu) -> Iterator[str]:
    """What else to know about a GPU, below its row."""
    answer = gpu.ready
    if answer is not None and answer.status != "True" and answer.message:
        yield answer.message
    for condition in gpu.device.status.conditions:
        if condition.type != "Ready" and condition.status == "False" and condition.message:
            yield f"{condition.reason or condition.type}: {condition.message}"
    carried, missing = profiles(gpu)
    if carried:
        yield f"has {counts(carried)}"
    if missing:
        yield f"desired and missing: {counts(missing)}"
    if divided := gpu_instances(gpu):
        yield f"GPU instances {divided}"
    if fits := room(gpu.device.status.fits):
        yield f"room for {fits}"
    elif carried:
        yield "no room for another vGPU"
    if left := room_for_instances(gpu):
        yield f"room for GPU instances {left}"
    for layout, entry in gpu.layouts:
        if not layout.spec.dry_run:
            yield f"layout {layout.metadata.name}: {layout_state(layout, entry)}"


def layout_state(layout: VGPULayout, entry: LayoutGpu) -> str:
    """How far a layout is with a GPU, and why no further."""
    if entry.observed_generation < layout.metadata.generation:
        return "not answered yet"
    if entry.state in (LAYOUT_DONE, LAYOUT_PLANNED):
        return entry.state
    return ": ".join(part for part in (entry.state, entry.message or entry.reason) if part)


def profiles(gpu: fleet.Gpu) -> tuple[dict[str, int], dict[str, int]]:
    """How many vGPUs of each profile the GPU carries, and how many more are desired."""
    carried: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for vgpu in gpu.vgpus:
        found = vgpu.status.configure_vgpu_type_name
        if vgpu.status.vgpu_status:
            carried[found or "unknown profile"] += 1
        if vgpu.spec.enabled and found != vgpu.spec.vgpu_type_name:
            missing[vgpu.spec.vgpu_type_name or "unnamed profile"] += 1
    return dict(carried), dict(missing)


def gpu_instances(gpu: fleet.Gpu) -> str:
    """The GPU instances by the MigConfiguration, and the desired ones where they differ."""
    if gpu.mig is None:
        return ""
    status = gpu.mig.status
    found = instances({one.name: len(one.vgpu_ids) for one in status.profile_status})
    desired = instances({one.name: one.requested for one in gpu.mig.spec.profile_spec})
    text = found
    if gpu.mig.spec.enabled and desired != found:
        text = f"{found or 'none'}, desired {desired or 'none'}"
    if status.status == MIG_OUT_OF_SYNC:
        text += f" ({status.status}{status.message and ': '}{status.message})"
    return text.strip()


def room_for_instances(gpu: fleet.Gpu) -> str:
    """The GPU instances of one profile that could still be made, by profile."""
    if gpu.mig is None:
        return ""
    fits = {bare_name(one.name): one.available for one in gpu.mig.status.profile_status}
    return " or ".join(f"{fits[name]} x {name}" for name in sorted(fits, key=natural) if fits[name])


def instances(found: Mapping[str, int]) -> str:
    """`1g.10gb=2, 3g.40gb=1`; empty for none."""
    return counts({bare_name(name): count for name, count in found.items()})
