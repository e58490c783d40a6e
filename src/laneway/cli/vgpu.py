"""`laneway vgpu set`: all vGPUs of one GPU at once.

They are stored in a VGPULayout that selects this GPU alone and has the name of its SRIOVGPUDevice,
so that the next command changes it instead of adding another. If another layout configures the GPU,
the command refuses before it writes anything: one GPU has one layout.
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
    gpu_changes,
    profile_names,
    reporting,
    steps,
    target,
    trial,
)
from laneway.cli import gpu as gpu_commands
from laneway.cli.changing import Change, Waiting, applied
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.controllers.devices.gpu import profile_names as profile_names_of
from laneway.controllers.devices.layout import claimant, claims, selection
from laneway.core.layout.desired import owner, selects_gpu, selects_node
from laneway.core.refusals import GpuClaimed
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served
from laneway.views.answers import Answer, entry_of, of_layout
from laneway.views.gpus import Gpu
from laneway.views.profiles import room, shortened
from laneway.views.vgpus import profiles

_DEFAULTS = {"mode": "", "vgpus": [], "dryRun": False, "whenPossible": False, "takeOver": False}
"""Of a layout's spec, where it does not say."""


def set_vgpus(
    *,
    which: str,
    wanted: dict[str, int],
    mode: str | None,
    take_over: bool,
    dry_run: bool,
    when_possible: bool,
    wait: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Configure exactly these vGPUs on a GPU, as it was typed. Raises Failure."""
    asked = _Asked(which, wanted, mode, take_over, dry_run, when_possible, wait, timeout)
    with reporting.reported(output) as result:
        connection.ask(lambda client: _fulfil(client, asked, result), where)


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


def known(gpu: Gpu) -> tuple[set[str], set[str]]:
    """The profiles of a GPU as its driver names them, and as the catalogue does."""
    return profile_names_of(gpu.device, gpu.pci.status if gpu.pci else None, gpu.vgpus)


def desired_spec(gpu: Gpu, wanted: Mapping[str, int], mode: str | None) -> dict[str, Any]:
    """The spec of the layout, without the fields that the command does not set."""
    spec: dict[str, Any] = {
        "gpuSelector": {"names": [gpu.name]},
        "vgpus": [{"profile": name, "count": count} for name, count in wanted.items()],
    }
    return spec if mode is None else {"mode": mode, **spec}


def foremost(gpu: Gpu, layouts: Sequence[VGPULayout]) -> VGPULayout | None:
    """The layout of this GPU alone, if it exists. Raises Failure where another has the GPU."""
    mine = next((layout for layout in layouts if layout.metadata.name == gpu.name), None)
    if mine is not None and not _is_alone(mine, gpu):
        raise Failure(
            f"VGPULayout {gpu.name} selects more than {gpu.title}, so this command does not change "
            f"it. To change it: kubectl edit vgpulayout {gpu.name}"
        )
    rivals = [claimant(layout) for layout in layouts if claims(layout) and _means(layout, gpu)]
    first = owner([*rivals, *([claimant(mine)] if mine is not None else [])])
    if first not in ("", gpu.name):
        raise Failure(
            f"VGPULayout {first} configures {gpu.title}. Change its vGPUs or its gpuSelector "
            f"(kubectl edit vgpulayout {first}), or delete it (kubectl delete vgpulayout {first})"
        )
    return mine


def _is_alone(layout: VGPULayout, gpu: Gpu) -> bool:
    spec = layout.spec
    alone = list(spec.gpu_selector.names) == [gpu.name] and not spec.gpu_selector.device_ids
    return alone and spec.node_selector == LayoutNodeSelector()


def _means(layout: VGPULayout, gpu: Gpu) -> bool:
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


async def _fulfil(client: Client, asked: _Asked, result: reporting.Result) -> None:
    meant = await target.find(client, asked.which)
    result.gpu, result.kind, result.name = meant.title, "VGPULayout", meant.name
    result.dry_run = asked.dry_run
    gpu_changes.reachable(meant)
    full = profile_names.in_full(asked.wanted, *known(meant))
    mine = foremost(meant, await _layouts(client))
    spec = desired_spec(meant, full, asked.mode)
    if asked.take_over:
        spec["takeOver"] = True
    if not asked.when_possible:
        entry = await _possible(client, meant, spec, mine, asked)
        if asked.dry_run:
            result.state, result.steps = "Planned", entry.steps
            result.fits_afterwards = shortened(entry.fits_afterwards)
            _print_plan(entry)
            return
    elif asked.dry_run:
        raise Failure("--when-possible stores a change, and --dry-run none; use one of them")
    result.state = "Stored"
    answer = await _stored(client, meant, spec, mine, asked)
    if answer is not None:
        result.state, result.reason, result.message = "Done", answer.reason, answer.message
        click.echo(one_line(f"Done. {answer.message or answer.reason}"))


async def _possible(
    client: Client,
    gpu: Gpu,
    spec: dict[str, Any],
    mine: VGPULayout | None,
    asked: _Asked,
) -> LayoutGpu:
    """What the agent would do. Raises Failure where the change is refused."""
    if (claim := gpu_commands.claim_of(gpu)) is not None:
        words = GpuClaimed(gpu.address, claim.metadata.name, claim.spec.user_name).words
        raise gpu_changes.refused([words], dry_run=asked.dry_run)
    # What is not named stays as it is in the layout, so the trial has to name it.
    tried = {"mode": mine.spec.mode, **spec} if mine is not None else dict(spec)
    return await asking.agreed(
        client,
        gpu,
        tried,
        seconds=asking.patience(asked.seconds, wait=asked.wait),
        dry_run=asked.dry_run,
        fits=True,
    )


async def _stored(
    client: Client, gpu: Gpu, spec: dict[str, Any], mine: VGPULayout | None, asked: _Asked
) -> Answer | None:
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
        lambda layout, generation: of_layout(entry_of(layout, gpu.name, generation)),
        waiting,
    )


async def _made(client: Client, name: str, spec: dict[str, Any]) -> VGPULayout:
    try:
        return await trial.make(client, name, spec)
    except AlreadyExistsError:
        raise Failure(
            f"VGPULayout {name} was created by another program meanwhile; run the command again"
        ) from None


def _before(
    gpu: Gpu, mine: VGPULayout, was: dict[str, Any], written: dict[str, Any]
) -> dict[str, Any]:
    """The fields that are written, as they were in force until now."""
    carried, _ = profiles(gpu)
    vgpus = [{"profile": name, "count": count} for name, count in sorted(carried.items())]
    return gpu_changes.in_force(
        {key: was[key] for key in written},
        found={**was, "mode": "", "vgpus": vgpus},
        refused=_refused(mine, gpu) and not was["whenPossible"],
    )


def _refused(layout: VGPULayout, gpu: Gpu) -> bool:
    entry = entry_of(layout, gpu.name, layout.metadata.generation)
    return of_layout(entry).kind == "refused"


def _same(written: dict[str, Any], was: dict[str, Any]) -> bool:
    return all(was[key] == value for key, value in written.items())


def _print_plan(entry: LayoutGpu) -> None:
    """Print the steps of a plan, as `laneway host plan` does, and what would fit then."""
    if entry.steps:
        click.echo("Would do, in this order:")
        for line in steps.numbered(entry.steps):
            click.echo(line)
    else:
        click.echo("Nothing to do: the GPU is as desired.")
    if fits := room(entry.fits_afterwards):
        click.echo(one_line(f"Room afterwards: {fits}."))
