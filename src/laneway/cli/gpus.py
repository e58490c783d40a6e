"""`laneway gpus`: every GPU of the cluster that can be shared, what it carries and what still fits.

A GPU takes one line, and more only where there is something to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import click

from laneway.cli import connection, fleet, table
from laneway.cli.errors import Failure, one_line
from laneway.cli.labels import short_profile
from laneway.cli.profile_names import counts

COLUMNS = ("GPU", "BOARD", "MODE", "VGPUS", "STATE")


@click.command(
    epilog="""\b
Examples:
    laneway gpus
    laneway gpus --node node1 --verbose
"""
)
@click.option("--node", metavar="NAME", help="Only the GPUs of this node.")
@click.option("-v", "--verbose", is_flag=True, help="Also list every vGPU by its VGPUDevice.")
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
        click.echo(table.plain(COLUMNS, list(sections(seen, verbose=verbose))), nl=False)
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
    yield table.Row(cells, tuple(notes(gpu)))
    for vgpu in gpu.vgpus if verbose else ():
        profile = vgpu.status.configure_vgpu_type_name
        if vgpu.status.vgpu_status:
            name = vgpu.metadata.name
            cells = (vgpu.spec.address, short_profile(profile) or "?", "", "", f"vGPU {name}")
            yield table.Row(cells, child=True)


def mode(gpu: fleet.Gpu) -> str:
    """The mode that it is in, and the one that is wished where that is another."""
    found, wished = gpu.device.status.mode, gpu.device.spec.mode
    return f"{found or '?'}, wished {wished}" if wished and wished != found else found


def state(gpu: fleet.Gpu) -> str:
    """`Enabled` or `Disabled`, or the reason why it is not as wished."""
    answer = gpu.ready
    wished = "enabled" if gpu.device.spec.enabled else "disabled"
    if answer is None:
        return f"to be {wished}: no agent has answered yet"
    if answer.status == "True":
        return answer.reason
    return f"to be {wished}: {answer.reason or answer.status}"


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
        yield f"wished and not there: {counts(missing)}"
    if instances := gpu_instances(gpu):
        yield instances
    if room := counts(gpu.device.status.fits):
        yield f"room for {room}" + (" (each for itself)" if "," in room else "")
    elif carried:
        yield "no room for another vGPU"
    for layout, entry in gpu.layouts:
        if not layout.spec.dry_run:
            yield f"layout {layout.metadata.name}: {entry.state or 'not answered yet'}" + (
                f", {entry.reason}" if entry.reason else ""
            )


def profiles(gpu: fleet.Gpu) -> tuple[dict[str, int], dict[str, int]]:
    """How many vGPUs of each profile the GPU carries, and how many are wished beside these."""
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
    """What a MigConfiguration says: its GPU instances, and whether they are as wished."""
    if gpu.mig is None:
        return ""
    status = gpu.mig.status
    found = {one.name: len(one.vgpu_ids) for one in status.profile_status}
    listed = counts({name.removeprefix("MIG "): count for name, count in found.items()})
    wished = {one.name.removeprefix("MIG "): one.requested for one in gpu.mig.spec.profile_spec}
    asked = f", wished {counts(wished)}" if gpu.mig.spec.enabled and any(wished.values()) else ""
    if not (listed or asked):
        return ""
    how = f" ({status.status})" if status.status else ""
    why = f": {status.message}" if status.message else ""
    return f"GPU instances: {listed or 'none'}{asked}{how}{why}"
