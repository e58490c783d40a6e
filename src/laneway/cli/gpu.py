"""`laneway gpu enable` and `disable`: a GPU's virtual functions and its mode, through its object.

The command writes the desired state and the agent of the node applies it. Before anything is
written, the objects, the server and the agent are asked whether it is possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from laneway.api import LAYOUT_REFUSED, PCIDeviceClaim, SRIOVGPUDevice, SRIOVGPUDeviceSpec
from laneway.cli import asking, connection, gpu_changes, reporting, target
from laneway.cli.changing import Change, Waiting, applied
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import one_line
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.refusals import DeviceHeld, GpuClaimed, ModeWithoutVfs, VgpusEnabled
from laneway.core.sriov.vfs import configured_words
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.answers import Answer, of_gpu
from laneway.views.gpus import Gpu
from laneway.views.state import NEXT
from laneway.views.vgpus import profiles


def switch(
    *,
    enabled: bool,
    which: str,
    mode: str | None,
    dry_run: bool,
    when_possible: bool,
    wait: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Enable or disable a GPU, as it was typed. Raises Failure."""
    asked = _Asked(which, desired_fields(enabled, mode), dry_run, when_possible, wait, timeout)
    with reporting.reported(output) as result:
        connection.ask(lambda client: _switched(client, asked, result), where)


class _Asked(NamedTuple):
    """A command as it was typed."""

    which: str
    fields: dict[str, Any]
    """Of the spec."""
    dry_run: bool
    when_possible: bool
    wait: bool
    seconds: int


def desired_fields(enabled: bool, mode: str | None) -> dict[str, Any]:
    """The fields of the spec that a command is about."""
    return {"enabled": enabled} if mode is None else {"enabled": enabled, "mode": str(mode)}


async def _switched(client: Client, asked: _Asked, result: reporting.Result) -> None:
    meant = await target.find(client, asked.which)
    result.gpu, result.kind, result.name = meant.title, "SRIOVGPUDevice", meant.name
    result.dry_run = asked.dry_run
    gpu_changes.reachable(meant)
    fields, dry_run = asked.fields, asked.dry_run
    different = list(changes(meant.device.spec, fields))
    reasons = list(against(meant, fields, waits=asked.when_possible)) if different else []
    if reasons:
        raise gpu_changes.refused(reasons, dry_run=dry_run)
    resource = served(SRIOVGPUDevice)
    # The server's own dry run, so that what it would refuse is refused before an agent is asked.
    await client.patch(resource, meant.name, {"spec": fields}, dry_run=True)
    if different and not asked.when_possible:
        tried = trial_spec(meant, fields)
        await asking.agreed(
            client,
            meant,
            tried,
            seconds=asking.patience(asked.seconds, wait=asked.wait),
            dry_run=dry_run,
            fits=False,
        )
    if dry_run:
        result.state, result.steps = "Planned", different
        _print_changes(meant, different)
        return
    answer = await _stored(client, meant, asked, changes_object=bool(different))
    result.state = "Stored"
    if answer is not None:
        next_step = NEXT.get(answer.reason, "").format(title=meant.title)
        result.state, result.reason = "Done", answer.reason
        result.message = next_step or answer.message
        click.echo(one_line(f"Done. {result.message or answer.reason}"))


async def _stored(
    client: Client, meant: Gpu, asked: _Asked, *, changes_object: bool
) -> Answer | None:
    """Store the change and wait for the agent; None where the command does not wait."""
    resource, fields = served(SRIOVGPUDevice), asked.fields
    change = Change(
        resource=resource,
        plural="sriovgpudevice",
        name=meant.name,
        gpu=meant,
        before=_before(meant, fields),
        changes=changes_object,
    )
    waiting = Waiting(
        asked.seconds if asked.wait else 0,
        asked.when_possible,
        lambda: target.find(client, meant.name),
    )
    return await applied(
        client,
        change,
        lambda: client.patch(resource, meant.name, {"spec": fields}),
        of_gpu,
        waiting,
    )


def trial_spec(gpu: Gpu, fields: dict[str, Any]) -> dict[str, Any]:
    """A layout for the same change of the GPU, to ask the agent about."""
    mode = fields.get("mode", gpu.device.spec.mode)
    names: dict[str, Any] = {"gpuSelector": {"names": [gpu.name]}}
    if fields["enabled"]:
        carried, _ = profiles(gpu)
        vgpus = [{"profile": name, "count": count} for name, count in carried.items()]
        return {**names, "vgpus": vgpus, **({"mode": mode} if mode else {})}
    has_mig = (mode_named(mode) or mode_named(gpu.device.status.mode)) in (
        Mode.MIG,
        Mode.MIG_BACKED,
    )
    return {**names, "vgpus": [], "mode": Mode.MIG if has_mig else Mode.PASSTHROUGH}


def _before(gpu: Gpu, fields: dict[str, Any]) -> dict[str, Any]:
    device = gpu.device
    found = {"enabled": bool(device.status.vf_addresses), "mode": ""}
    spec = {"enabled": device.spec.enabled, "mode": device.spec.mode}
    refused = of_gpu(device, device.metadata.generation).kind == "refused"
    return gpu_changes.in_force({key: spec[key] for key in fields}, found=found, refused=refused)


def changes(spec: SRIOVGPUDeviceSpec, desired: dict[str, Any]) -> Iterator[str]:
    """What the desired fields change in the object."""
    if spec.enabled != desired["enabled"]:
        yield f"spec.enabled: {_json(spec.enabled)} -> {_json(desired['enabled'])}"
    if (mode := desired.get("mode", spec.mode)) != spec.mode:
        yield f"spec.mode: {spec.mode or 'none'} -> {mode}"


def _json(value: bool) -> str:
    return "true" if value else "false"


def against(meant: Gpu, desired: dict[str, Any], *, waits: bool = False) -> Iterator[str]:
    """Reasons against a change, as far as the objects show; holders show on the node only.

    `waits`: leave out reasons that can go away by themselves.
    """
    enabled, mode = desired["enabled"], desired.get("mode", meant.device.spec.mode)
    owners = [
        layout.metadata.name
        for layout, entry in meant.layouts
        if not layout.spec.dry_run and entry.state != LAYOUT_REFUSED
    ]
    for name in owners:
        yield f"VGPULayout {name} configures {meant.title}. {_without(name, meant, desired)}"
    if enabled and (named := mode_named(mode)) is not None and not named.has_vfs:
        yield ModeWithoutVfs(meant.address, named).words
    if waits:
        return
    if enabled and (claim := claim_of(meant)) is not None:
        yield GpuClaimed(meant.address, claim.metadata.name, claim.spec.user_name).words
    wanted = tuple(vgpu.metadata.name for vgpu in meant.vgpus if vgpu.spec.enabled)
    other = mode not in (meant.device.spec.mode, meant.device.status.mode)
    if owners or (enabled and not other):
        return
    if wanted:
        yield VgpusEnabled(meant.address, wanted).words
    for vgpu in meant.vgpus:
        # The trial would plan to remove it; for the object's change the agent removes none.
        if vgpu.status.vgpu_status and not vgpu.spec.enabled:
            address = vgpu.spec.address
            name = vgpu.status.configure_vgpu_type_name or "of an unknown profile"
            yield DeviceHeld(address, (configured_words(address, name),)).words


def _without(layout: str, meant: Gpu, desired: dict[str, Any]) -> str:
    """How to change what a layout decides."""
    is_own = layout == meant.name
    delete = f"kubectl delete vgpulayout {layout}"
    if desired["enabled"]:
        of_command = f"laneway vgpu set {meant.title} PROFILE=COUNT --mode MODE"
        change = of_command if is_own else f"kubectl edit vgpulayout {layout}"
        return f"Change the mode there: {change}. Or delete the layout first: {delete}"
    if is_own and any(vgpu.spec.enabled for vgpu in meant.vgpus):
        remove = f"laneway vgpu set {meant.title} none"
        return f"Remove its vGPUs first, and then the layout: {remove}; {delete}"
    return f"Delete the layout first, which changes no vGPU: {delete}"


def claim_of(gpu: Gpu) -> PCIDeviceClaim | None:
    """The claim of the whole GPU; a claim that came after its functions does not count."""
    return None if gpu.device.status.vf_addresses else gpu.claim


def _print_changes(meant: Gpu, different: list[str]) -> None:
    if not different:
        click.echo("Nothing to do: the GPU is as desired.")
        return
    click.echo(one_line(f"Would change SRIOVGPUDevice {meant.name}, for the agent to apply:"))
    for line in different:
        click.echo(f"  {one_line(line)}")
