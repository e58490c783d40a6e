"""`laneway gpus`: every GPU of the cluster that can be shared, what it carries and what still fits.

A GPU takes one line, and more only where there is something to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import click

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_PLANNED,
    MIG_OUT_OF_SYNC,
    LayoutGpu,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.cli import connection, fleet, table
from laneway.cli.errors import Failure, one_line
from laneway.cli.profile_names import counts, room
from laneway.core.mig.desired import bare_name
from laneway.core.refusals import MigOnly, NoGpuInstances, reason_of
from laneway.core.vgpu.spelling import short_name

NEXT = {
    reason_of(NoGpuInstances): (
        "MIG mode is on; next: laneway vgpu set {title} PROFILE=COUNT, which makes the GPU "
        "instances too."
    ),
    reason_of(MigOnly): (
        "The virtual functions are there, and this model offers vGPUs only in MIG mode; next: "
        "laneway gpu enable {title} --mode MIGBacked"
    ),
}
"""Answers about a GPU that is as asked for and offers no vGPU yet, and what has to follow."""

COLUMNS = ("GPU", "BOARD", "MODE", "VGPUS", "STATE")


@click.command(
    epilog="""\b
Examples:
    laneway gpus
    laneway gpus --node node1 --verbose
"""
)
@click.option("--node", metavar="NAME", help="Only the GPUs of this node.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list each vGPU, configured or desired, with its VGPUDevice.",
)
@connection.kubeconfig_option
def gpus(node: str | None, kubeconfig: str | None, *, verbose: bool) -> None:
    """Show the GPUs of the cluster that can be shared, and what each still has room for.

    VGPUS counts those that exist, of the virtual functions that can carry one. "Room for" tells how
    many more of each profile would fit now if it were the only one that is added.
    """
    seen = connection.ask(lambda client: fleet.look(client, node or ""), kubeconfig)
    for why in seen.unreadable:
        click.echo(one_line(f"laneway: warning: {why}"), err=True)
    if node is not None and not seen.gpus:
        raise Failure(
            f"node {node} has no GPU that can be shared, as far as the cluster knows; 'laneway "
            "gpus' lists all, 'kubectl get nodes.devices.harvesterhci.io' the nodes with an agent"
        )
    if seen.gpus:
        table.echo(COLUMNS, list(sections(seen, verbose=verbose)))
    else:
        click.echo(
            "No GPU that can be shared. 'kubectl get nodes.devices.harvesterhci.io' lists the "
            "nodes with an agent."
        )


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
    cells = (gpu.address, gpu.board, mode(gpu), vgpus, state(gpu))
    listed = vgpu_lines(gpu.vgpus) if verbose else ()
    yield table.Row(cells, (*notes(gpu), *listed))


def vgpu_lines(vgpus: Sequence[VGPUDevice]) -> list[str]:
    """A line for every vGPU that there is or that is desired: where, which, and its object."""
    return [
        f"{vgpu.spec.address} {_vgpu(vgpu)}: vgpudevice/{vgpu.metadata.name}"
        for vgpu in vgpus
        if vgpu.status.vgpu_status or vgpu.spec.enabled
    ]


def _vgpu(vgpu: VGPUDevice) -> str:
    found, desired = vgpu.status.configure_vgpu_type_name, vgpu.spec.vgpu_type_name
    is_there = short_name(found) or "?" if vgpu.status.vgpu_status else ""
    if not vgpu.spec.enabled or desired == found:
        return is_there
    ready = find_condition(vgpu.status.conditions, "Ready")
    why = f" ({ready.reason})" if ready is not None and ready.reason else ""
    return f"{is_there or 'none'}, desired {short_name(desired) or '?'}{why}"


def mode(gpu: fleet.Gpu) -> str:
    """The mode that it is in, and the one that is desired where it differs."""
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
    """What there is to say about a GPU beside its row."""
    answer = gpu.ready
    if answer is not None and answer.status != "True" and answer.message:
        yield answer.message
    for condition in gpu.device.status.conditions:
        if condition.type != "Ready" and condition.status == "False" and condition.message:
            yield f"{condition.reason or condition.type}: {condition.message}"
    carried, missing = profiles(gpu)
    if carried:
        yield f"carries {counts(carried)}"
    if missing:
        yield f"desired and missing: {counts(missing)}"
    if divided := gpu_instances(gpu):
        yield f"GPU instances {divided}"
    if fits := room(gpu.device.status.fits):
        yield f"room for {fits}" + (" (each for itself)" if "," in fits or "/" in fits else "")
    elif carried:
        yield "no room for another vGPU"
    if left := room_for_instances(gpu):
        yield f"room for GPU instances {left}" + (" (each for itself)" if "," in left else "")
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
    """How many vGPUs of each profile the GPU carries, and how many are desired beside these."""
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
    """What a MigConfiguration says: its GPU instances, and what is desired where it differs."""
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
    """The GPU instances that could still be made, each for itself."""
    if gpu.mig is None:
        return ""
    return instances({one.name: one.available for one in gpu.mig.status.profile_status})


def instances(found: Mapping[str, int]) -> str:
    """`2 x 1g.10gb, 1 x 3g.40gb`; empty for none."""
    return counts({bare_name(name): count for name, count in found.items()})
