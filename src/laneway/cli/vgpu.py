"""`laneway vgpu set`: all vGPUs of one GPU as one wish.

The wish is a VGPULayout that selects this GPU alone and is named like its SRIOVGPUDevice, so that
the next command changes it instead of adding another. A GPU that another layout has is refused
before anything is written, for two layouts must never pull at one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_PLANNED,
    LAYOUT_REFUSED,
    LayoutGpu,
    LayoutNodeSelector,
    VGPULayout,
    to_builtins,
)
from laneway.cli import connection, fleet, profile_names, progress, steps, target, trial, wishing
from laneway.cli.errors import Failure, one_line
from laneway.controllers.devices.layout import claimant, claims, selection
from laneway.core.gpu.modes import Mode
from laneway.core.layout.wish import owner, selects_gpu, selects_node
from laneway.core.vgpu.profiles import profiles_on
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served


@click.group(
    epilog="""\b
Examples:
    laneway vgpu set node1/08:00.0 A2-4Q=4
    laneway vgpu set node1/08:00.0 none --dry-run
"""
)
def vgpu() -> None:
    """Say which vGPUs a GPU of a cluster shall carry."""


@vgpu.command(
    "set",
    epilog="""\b
Examples:
    laneway vgpu set node1/08:00.0 A2-8Q
    laneway vgpu set node1/08:00.0 "NVIDIA A2-4Q=2" --dry-run
    laneway vgpu set node1/17:00.0 L40S-12Q=2 L40S-24Q --mode MixedSize
    laneway vgpu set node1/17:00.0 none
""",
)
@click.argument("which", metavar=target.METAVAR)
@click.argument(
    "wanted",
    metavar="PROFILE[=COUNT]...",
    nargs=-1,
    required=True,
    callback=lambda _context, _argument, values: profile_names.wishes(values),
)
@wishing.mode_option(
    [mode for mode in Mode if mode.has_vfs],
    "How the vGPUs share the GPU; otherwise as the layout and the GPU say already.",
)
@wishing.options
def set_(
    *,
    which: str,
    wanted: dict[str, int],
    mode: str | None,
    dry_run: bool,
    wait: bool,
    timeout: int,
    kubeconfig: str | None,
) -> None:
    """Have a GPU carry exactly these vGPUs; "none" stands for no vGPU at all.

    vGPUs that it has and that are asked for stay as they are. Others go, unless a virtual machine
    holds them. What is needed before (virtual functions, the mode, GPU instances) is made as well.
    A profile is named as the driver prints it, or by the last word of that.
    """

    async def work(client: Client) -> None:
        meant = await target.find(client, which)
        wishing.reachable(meant)
        full = profile_names.in_full(wanted, known(meant))
        mine = foremost(meant, await _layouts(client))
        spec = wish(meant, full, mode)
        if dry_run:
            # What is not named stays as it is in the layout, so the trial has to name it.
            tried = {"mode": mine.spec.mode, **spec} if mine is not None else spec
            await _try_out(client, meant, tried, timeout)
        else:
            await _fulfil(client, meant, spec, mine, seconds=timeout * wait)

    connection.ask(work, kubeconfig)


def known(gpu: fleet.Gpu) -> set[str]:
    """Every profile that anybody knows for a GPU: its driver, its objects, or the catalogue."""
    status = gpu.device.status
    found = {*status.fits, *status.configured}
    for function in gpu.vgpus:
        found.update(function.status.available_types)
        found.update(filter(None, (function.spec.vgpu_type_name,)))
    if gpu.pci is not None:
        card = gpu.pci.status
        found.update(one.name for one in profiles_on(card.device_id, card.subsystem_device_id))
    return found


def wish(gpu: fleet.Gpu, wanted: Mapping[str, int], mode: str | None) -> dict[str, Any]:
    """The spec of the layout, without what the command says nothing about."""
    spec: dict[str, Any] = {
        "gpuSelector": {"names": [gpu.name]},
        "vgpus": [{"profile": name, "count": count} for name, count in wanted.items()],
    }
    return spec if mode is None else {"mode": mode, **spec}


def foremost(gpu: fleet.Gpu, layouts: Sequence[VGPULayout]) -> VGPULayout | None:
    """The layout of this GPU alone, if there is one. Raises Failure when another has the GPU."""
    mine = next((layout for layout in layouts if layout.metadata.name == gpu.name), None)
    if mine is not None and not _is_alone(mine, gpu):
        raise Failure(
            f"VGPULayout {gpu.name} does not select {gpu.title} alone, so this command leaves it. "
            f"Change it with: kubectl edit vgpulayout {gpu.name}"
        )
    rivals = [claimant(layout) for layout in layouts if claims(layout) and _means(layout, gpu)]
    first = owner([*rivals, *([claimant(mine)] if mine is not None else [])])
    if first not in ("", gpu.name):
        raise Failure(
            f"VGPULayout {first} has {gpu.title} already. Change that one (kubectl edit "
            f"vgpulayout {first}), have it leave this GPU out, or delete it"
        )
    return mine


def _is_alone(layout: VGPULayout, gpu: fleet.Gpu) -> bool:
    spec = layout.spec
    alone = list(spec.gpu_selector.names) == [gpu.name] and not spec.gpu_selector.device_ids
    return alone and spec.node_selector == LayoutNodeSelector()


def _means(layout: VGPULayout, gpu: fleet.Gpu) -> bool:
    """As the agents decide it, as far as the objects tell what they know."""
    selected = selection(layout)
    device = gpu.pci.status.device_id if gpu.pci is not None else ""
    return selects_node(selected, gpu.node, gpu.labels) and selects_gpu(selected, gpu.name, device)


async def _layouts(client: Client) -> list[VGPULayout]:
    resource = served(VGPULayout)
    with connection.installed(resource.kind):
        return [
            resource.decode(item) async for page in client.list(resource) for item in page.items
        ]


async def _fulfil(
    client: Client,
    gpu: fleet.Gpu,
    spec: dict[str, Any],
    before: VGPULayout | None,
    *,
    seconds: int,
) -> None:
    resource = served(VGPULayout)
    undo = f"kubectl delete vgpulayout {gpu.name}"
    if before is None:
        try:
            stored = await trial.make(client, gpu.name, spec)
        except AlreadyExistsError:
            raise Failure(f"somebody else has just made VGPULayout {gpu.name}; ask again") from None
    else:
        stored = await client.patch(resource, gpu.name, {"spec": {"dryRun": False, **spec}})
        was = {"mode": "", "vgpus": [], **to_builtins(before.spec)}
        undo = wishing.patch_back("vgpulayout", gpu.name, was)
        if stored.spec == before.spec:
            undo = ""
    if not seconds:
        click.echo(one_line(f"Asked for in VGPULayout {gpu.name}; the agent carries it out."))
        return
    generation = stored.metadata.generation
    _, answer = await progress.awaited(
        client,
        resource,
        gpu.name,
        lambda layout: answer_of(entry_of(layout, gpu.name, generation)),
        node=gpu.node,
        seconds=seconds,
    )
    wishing.ended(answer, undo)


async def _try_out(client: Client, gpu: fleet.Gpu, spec: dict[str, Any], seconds: int) -> None:
    click.echo(one_line(f"Asking the agent of {gpu.node} what it would do."), err=True)
    async with trial.layout(client, spec) as made:
        name, generation = made.metadata.name, made.metadata.generation
        layout, answer = await progress.awaited(
            client,
            served(VGPULayout),
            name,
            lambda layout: answer_of(entry_of(layout, gpu.name, generation)),
            node=gpu.node,
            seconds=seconds,
            quiet=True,
        )
    entry = entry_of(layout, gpu.name, generation)
    if answer.kind == "refused" or entry is None:
        reasons = [answer.words]
        if entry is not None and (fits := profile_names.room(entry.fits)):
            reasons.append(f"What would fit beside what is there, each for itself: {fits}.")
        raise wishing.refused(reasons, "nothing would be changed")
    tell_plan(entry.steps)
    if fits := profile_names.room(entry.fits_afterwards):
        click.echo(one_line(f"Afterwards there would be room, each for itself, for {fits}."))


def entry_of(layout: VGPULayout, name: str, generation: int) -> LayoutGpu | None:
    """What is said about a GPU to the present wish."""
    for entry in layout.status.gpus:
        if entry.name == name and entry.observed_generation >= generation:
            return entry
    return None


def answer_of(entry: LayoutGpu | None) -> progress.Answer:
    """How far the agent is with one GPU of a layout."""
    if entry is None:
        return progress.Answer("none")
    if entry.state in (LAYOUT_DONE, LAYOUT_PLANNED):
        return progress.Answer("done", entry.reason, entry.message)
    if entry.state == LAYOUT_REFUSED:
        return progress.Answer("refused", entry.reason, entry.message)
    left = f"{steps.count(len(entry.steps))} left: {entry.steps[0]}" if entry.steps else ""
    return progress.Answer("working", entry.reason or entry.state, entry.message or left)


def tell_plan(words: Sequence[str]) -> None:
    """Print the steps of a plan, as `laneway host plan` does."""
    if not words:
        click.echo("Nothing to do: everything is as asked for.")
        return
    click.echo("Would do, in this order:")
    for line in steps.numbered(words):
        click.echo(line)
