"""`laneway vgpu set`: all vGPUs of one GPU at once.

They are stored in a VGPULayout that selects this GPU alone and is named like its SRIOVGPUDevice, so
that the next command changes it instead of adding another. A GPU that another layout has is refused
before anything is written, for two layouts must never pull at one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from laneway.api import (
    LayoutGpu,
    LayoutNodeSelector,
    VGPULayout,
    to_builtins,
)
from laneway.cli import (
    asking,
    connection,
    fleet,
    gpus,
    profile_names,
    progress,
    steps,
    target,
    trial,
    wishing,
)
from laneway.cli import gpu as gpu_commands
from laneway.cli.changing import Change, Waiting, applied
from laneway.cli.errors import Failure, one_line
from laneway.controllers.devices.gpu import profile_names as profile_names_of
from laneway.controllers.devices.layout import claimant, claims, selection
from laneway.core.gpu.modes import Mode
from laneway.core.layout.desired import owner, selects_gpu, selects_node
from laneway.core.refusals import GpuClaimed
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served

_DEFAULTS = {"mode": "", "vgpus": [], "dryRun": False, "whenPossible": False, "takeOver": False}
"""Of a layout's spec, where it does not say."""


@click.group(
    epilog="""\b
Examples:
    laneway vgpu set node1/08:00.0 A2-4Q=4
    laneway vgpu set node1/08:00.0 none --dry-run
"""
)
def vgpu() -> None:
    """Choose the vGPUs of a GPU of a cluster."""


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
    callback=lambda _context, _argument, values: profile_names.desired_states(values),
)
@wishing.mode_option(
    [mode for mode in Mode if mode.has_vfs],
    "How the vGPUs share the GPU; otherwise as the layout and the GPU say already.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Also replace the vGPUs that single VGPUDevices of the GPU ask for.",
)
@wishing.options
def set_(
    *,
    which: str,
    wanted: dict[str, int],
    mode: str | None,
    take_over: bool,
    dry_run: bool,
    when_possible: bool,
    wait: bool,
    timeout: int,
    kubeconfig: str | None,
) -> None:
    """Configure exactly these vGPUs on a GPU; "none" stands for no vGPU at all.

    vGPUs that it has and that are asked for stay as they are. Others are removed, unless a VM has
    them. What the profiles need (virtual functions, the mode, GPU instances) is made as well. A
    profile is named as the driver prints it, or by the last word of that.

    What is not possible now is refused, and nothing is changed; --when-possible stores it all the
    same, to be applied as soon as it becomes possible.
    """
    asked = _Asked(which, wanted, mode, take_over, dry_run, when_possible, wait, timeout)
    connection.ask(lambda client: _fulfil(client, asked), kubeconfig)


class _Asked(NamedTuple):
    """A command as it was typed."""

    which: str
    wanted: dict[str, int]
    mode: str | None
    take_over: bool
    dry_run: bool
    when_possible: bool
    wait: bool
    seconds: int


def known(gpu: fleet.Gpu) -> tuple[set[str], set[str]]:
    """The profiles of a GPU as its driver names them, and as the catalogue does."""
    return profile_names_of(gpu.device, gpu.pci.status if gpu.pci else None, gpu.vgpus)


def desired(gpu: fleet.Gpu, wanted: Mapping[str, int], mode: str | None) -> dict[str, Any]:
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


async def _fulfil(client: Client, asked: _Asked) -> None:
    meant = await target.find(client, asked.which)
    wishing.reachable(meant)
    full = profile_names.in_full(asked.wanted, *known(meant))
    mine = foremost(meant, await _layouts(client))
    spec = desired(meant, full, asked.mode)
    # What is not named stays as it is in the layout, so the trial has to name it.
    tried = {"mode": mine.spec.mode, **spec} if mine is not None else dict(spec)
    if asked.take_over:
        tried["takeOver"] = spec["takeOver"] = True
    if not asked.when_possible:
        if (claim := gpu_commands.claim_of(meant)) is not None:
            words = GpuClaimed(meant.address, claim.metadata.name, claim.spec.user_name).words
            raise wishing.refused([words], dry_run=asked.dry_run)
        entry = await asking.agreed(
            client,
            meant,
            tried,
            seconds=asking.patience(asked.seconds, wait=asked.wait),
            dry_run=asked.dry_run,
            fits=True,
        )
        if asked.dry_run:
            _tell(entry)
            return
    elif asked.dry_run:
        raise Failure("--when-possible stores what --dry-run only asks about; use one of them")
    answer = await _stored(client, meant, spec, mine, asked)
    if answer is not None:
        click.echo(one_line(f"Done. {answer.message or answer.reason}"))


async def _stored(
    client: Client, gpu: fleet.Gpu, spec: dict[str, Any], mine: VGPULayout | None, asked: _Asked
) -> progress.Answer | None:
    resource = served(VGPULayout)
    was = {**_DEFAULTS, **to_builtins(mine.spec)} if mine is not None else _DEFAULTS
    written = {**spec, "dryRun": False, "whenPossible": asked.when_possible}
    if mine is not None and _refused(mine, gpu) and _same(written, was):
        # An agent judges a refused layout again only once its spec is another one.
        written["whenPossible"] = True
    before = None if mine is None else _before(gpu, mine, was, written)

    async def write() -> VGPULayout:
        if mine is None:
            return await _made(client, gpu.name, written)
        return await client.patch(resource, gpu.name, {"spec": written})

    change = Change(
        resource=resource,
        plural="vgpulayout",
        name=gpu.name,
        gpu=gpu,
        before=before,
        changes=before is None or not _same(written, was),
    )
    waiting = Waiting(
        asked.seconds if asked.wait else 0,
        asked.when_possible,
        lambda: target.find(client, gpu.name),
    )
    return await applied(
        client,
        change,
        write,
        lambda layout, generation: asking.answer_of(asking.entry_of(layout, gpu.name, generation)),
        waiting,
    )


async def _made(client: Client, name: str, spec: dict[str, Any]) -> VGPULayout:
    try:
        return await trial.make(client, name, spec)
    except AlreadyExistsError:
        raise Failure(f"another program has just made VGPULayout {name}; ask again") from None


def _before(
    gpu: fleet.Gpu, mine: VGPULayout, was: dict[str, Any], written: dict[str, Any]
) -> dict[str, Any]:
    """The fields that are written, as they were in force until now."""
    carried, _ = gpus.profiles(gpu)
    vgpus = [{"profile": name, "count": count} for name, count in sorted(carried.items())]
    return wishing.in_force(
        {key: was[key] for key in written},
        found={**was, "mode": "", "vgpus": vgpus},
        refused=_refused(mine, gpu) and not was["whenPossible"],
    )


def _refused(layout: VGPULayout, gpu: fleet.Gpu) -> bool:
    entry = asking.entry_of(layout, gpu.name, layout.metadata.generation)
    return asking.answer_of(entry).kind == "refused"


def _same(written: dict[str, Any], was: dict[str, Any]) -> bool:
    return all(was[key] == value for key, value in written.items())


def _tell(entry: LayoutGpu) -> None:
    tell_plan(entry.steps)
    if fits := profile_names.room(entry.fits_afterwards):
        click.echo(one_line(f"Afterwards there would be room, each for itself, for {fits}."))


def tell_plan(words: Sequence[str]) -> None:
    """Print the steps of a plan, as `laneway host plan` does."""
    if not words:
        click.echo("Nothing to do: everything is as asked for.")
        return
    click.echo("Would do, in this order:")
    for line in steps.numbered(words):
        click.echo(line)
