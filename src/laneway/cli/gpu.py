"""`laneway gpu enable` and `disable`: a GPU's virtual functions and its mode, through its object.

The command writes the wish and the agent of the node carries it out. What the objects already show
to stand against it is told before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from laneway.api import LAYOUT_REFUSED, SRIOVGPUDevice, SRIOVGPUDeviceSpec
from laneway.cli import connection, fleet, progress, target, wishing
from laneway.cli.errors import one_line
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.refusals import ClaimedWhole, ModeWithoutVfs, VgpusEnabled
from laneway.kube.client import Client
from laneway.kube.resource import served


@click.group(
    epilog="""\b
Examples:
    laneway gpu enable node1/08:00.0
    laneway gpu enable node1/17:00.0 --mode MixedSize
    laneway gpu disable node1/17:00.0 --mode Passthrough --dry-run
"""
)
def gpu() -> None:
    """Enable or disable a GPU of a cluster, and choose how it is shared.

    A GPU that is enabled has virtual functions, which carry its vGPUs. A GPU is named by its node
    and address, the latter with or without its domain, or by the name of its SRIOVGPUDevice.
    """


@gpu.command(
    epilog="""\b
Examples:
    laneway gpu enable node1/08:00.0
    laneway gpu enable node1/17:00.0 --mode MIGBacked --dry-run
"""
)
@click.argument("which", metavar=target.METAVAR)
@wishing.mode_option(
    [mode for mode in Mode if mode.has_vfs],
    "How its vGPUs share it; otherwise as its object says already.",
)
@wishing.options
def enable(**given: Any) -> None:
    """Make the virtual functions of a GPU, so that it can carry vGPUs."""
    _switch(enabled=True, **given)


@gpu.command(
    epilog="""\b
Examples:
    laneway gpu disable node1/08:00.0
    laneway gpu disable node1/17:00.0 --mode MIG
"""
)
@click.argument("which", metavar=target.METAVAR)
@wishing.mode_option(
    Mode, "What the GPU is for from now on. Modes of vGPUs take effect once it is enabled."
)
@wishing.options
def disable(**given: Any) -> None:
    """Remove the virtual functions of a GPU. Refused while one of its vGPUs is enabled."""
    _switch(enabled=False, **given)


def _switch(
    *,
    enabled: bool,
    which: str,
    mode: str | None,
    dry_run: bool,
    wait: bool,
    timeout: int,
    kubeconfig: str | None,
) -> None:
    async def work(client: Client) -> None:
        await _fulfil(
            client, which, wished(enabled, mode), dry_run=dry_run, seconds=timeout if wait else 0
        )

    connection.ask(work, kubeconfig)


def wished(enabled: bool, mode: str | None) -> dict[str, Any]:
    """The fields of the spec that a command is about."""
    return {"enabled": enabled} if mode is None else {"enabled": enabled, "mode": str(mode)}


async def _fulfil(
    client: Client, text: str, wish: dict[str, Any], *, dry_run: bool, seconds: int
) -> None:
    meant = await target.find(client, text)
    wishing.reachable(meant)
    different = list(changes(meant.device.spec, wish))
    reasons = list(against(meant, wish)) if different else []
    if reasons:
        would = "would be" if dry_run else "was"
        raise wishing.refused(reasons, f"nothing {would} changed")
    resource = served(SRIOVGPUDevice)
    # With the dry run of the server, so that whatever it would refuse is refused now.
    stored = await client.patch(resource, meant.name, {"spec": wish}, dry_run=dry_run)
    if dry_run:
        _tell_changes(meant, different)
        return
    if not seconds:
        click.echo(one_line(f"Asked for {meant.title}; its agent carries it out."))
        return
    generation = stored.metadata.generation
    _, answer = await progress.awaited(
        client,
        resource,
        meant.name,
        lambda device: progress.answer_of(device.status, generation),
        node=meant.node,
        seconds=seconds,
    )
    before = {"enabled": meant.device.spec.enabled, "mode": meant.device.spec.mode}
    undo = wishing.patch_back("sriovgpudevice", meant.name, {key: before[key] for key in wish})
    wishing.ended(answer, undo if different else "")


def changes(spec: SRIOVGPUDeviceSpec, wish: dict[str, Any]) -> Iterator[str]:
    """What the wish changes in the object."""
    if spec.enabled != wish["enabled"]:
        yield f"spec.enabled: {_json(spec.enabled)} -> {_json(wish['enabled'])}"
    if (mode := wish.get("mode", spec.mode)) != spec.mode:
        yield f"spec.mode: {spec.mode or 'none'} -> {mode}"


def _json(value: bool) -> str:
    return "true" if value else "false"


def against(meant: fleet.Gpu, wish: dict[str, Any]) -> Iterator[str]:
    """What stands against the wish, as far as the objects tell; holders show on the node only."""
    enabled, mode = wish["enabled"], wish.get("mode", meant.device.spec.mode)
    for layout, entry in meant.layouts:
        if not layout.spec.dry_run and entry.state != LAYOUT_REFUSED:
            yield (
                f"VGPULayout {layout.metadata.name} decides about {meant.title}, and would ask for "
                "it as before. Change that with laneway vgpu set, or end it with: kubectl delete "
                f"vgpulayout {layout.metadata.name}"
            )
    if enabled and (named := mode_named(mode)) is not None and not named.has_vfs:
        yield ModeWithoutVfs(meant.address, named).words
    if enabled and (claim := meant.claim) is not None:
        yield ClaimedWhole(meant.address, claim.metadata.name, claim.spec.user_name).words
    wanted = tuple(vgpu.metadata.name for vgpu in meant.vgpus if vgpu.spec.enabled)
    other = mode not in (meant.device.spec.mode, meant.device.status.mode)
    if wanted and (other or not enabled):
        yield VgpusEnabled(meant.address, wanted).words


def _tell_changes(meant: fleet.Gpu, different: list[str]) -> None:
    if not different:
        click.echo("Nothing to do: everything is as asked for.")
        return
    click.echo(one_line(f"Would change SRIOVGPUDevice {meant.name}, for the agent to carry out:"))
    for line in different:
        click.echo(f"  {one_line(line)}")
