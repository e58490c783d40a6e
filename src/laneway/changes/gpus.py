"""A GPU's virtual functions and its mode, as its SRIOVGPUDevice desires them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from laneway.api import LAYOUT_REFUSED, PCIDeviceClaim, SRIOVGPUDevice
from laneway.changes import specs
from laneway.changes.listening import SILENT, Listener
from laneway.changes.writing import Change, Outcome, Waiting, applied, in_force
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.refusals import DeviceHeld, GpuClaimed, ModeWithoutVfs, VgpusEnabled
from laneway.core.sriov.vfs import configured_words
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.answers import of_gpu
from laneway.views.gpus import Gpu
from laneway.views.vgpus import profiles


class Desired(NamedTuple):
    """What a GPU is to be."""

    enabled: bool
    """Whether it has virtual functions."""
    mode: str | None = None
    """None: as it is in the object."""

    @property
    def fields(self) -> dict[str, Any]:
        """Those of the spec that change."""
        if self.mode is None:
            return {"enabled": self.enabled}
        return {"enabled": self.enabled, "mode": str(self.mode)}

    def mode_of(self, gpu: Gpu) -> str:
        return gpu.device.spec.mode if self.mode is None else self.mode


def unreachable(gpu: Gpu) -> str:
    """Why no agent will answer for the GPU; empty where one may."""
    if not gpu.abandoned:
        return ""
    return (
        f"{gpu.title} cannot be changed: {gpu.stale}. To remove its object: kubectl delete "
        f"sriovgpudevice {gpu.name}"
    )


def trial_spec(gpu: Gpu, desired: Desired) -> dict[str, Any]:
    """A layout for the same change of the GPU, to ask the agent about."""
    mode = desired.mode_of(gpu)
    names: dict[str, Any] = {"gpuSelector": {"names": [gpu.name]}}
    if desired.enabled:
        carried, _ = profiles(gpu)
        vgpus = [{"profile": name, "count": count} for name, count in carried.items()]
        return {**names, "vgpus": vgpus, **({"mode": mode} if mode else {})}
    named = mode_named(mode)
    has_mig = named.has_mig if named is not None else gpu.has_mig
    return {**names, "vgpus": [], "mode": Mode.MIG if has_mig else Mode.PASSTHROUGH}


def _before(gpu: Gpu, desired: Desired) -> dict[str, Any]:
    device = gpu.device
    found = {"enabled": bool(device.status.vf_addresses), "mode": ""}
    spec = {"enabled": device.spec.enabled, "mode": device.spec.mode}
    refused = of_gpu(device, device.metadata.generation).kind == "refused"
    return in_force({key: spec[key] for key in desired.fields}, found=found, refused=refused)


def differences(gpu: Gpu, desired: Desired) -> Iterator[str]:
    """What changes in the object."""
    spec = gpu.device.spec
    if spec.enabled != desired.enabled:
        yield f"spec.enabled: {_json(spec.enabled)} -> {_json(desired.enabled)}"
    if (mode := desired.mode_of(gpu)) != spec.mode:
        yield f"spec.mode: {spec.mode or 'none'} -> {mode}"


def _json(value: bool) -> str:
    return "true" if value else "false"


def against(meant: Gpu, desired: Desired, *, waits: bool = False) -> Iterator[str]:
    """Reasons against a change, as far as the objects show; holders show on the node only.

    `waits`: leave out reasons that can go away by themselves.
    """
    enabled, mode = desired.enabled, desired.mode_of(meant)
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


def _without(layout: str, meant: Gpu, desired: Desired) -> str:
    """How to change what a layout decides."""
    is_own = layout == meant.name
    delete = f"kubectl delete vgpulayout {layout}"
    if desired.enabled:
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


def change_of(gpu: Gpu, desired: Desired) -> Change:
    """The change of the object, with the way back."""
    return Change(
        resource=served(SRIOVGPUDevice),
        plural="sriovgpudevice",
        name=gpu.name,
        gpu=gpu,
        before=_before(gpu, desired),
        changes=any(differences(gpu, desired)),
    )


async def write(
    client: Client, gpu: Gpu, desired: Desired, *, dry_run: bool = False
) -> SRIOVGPUDevice:
    """Store it in the object. `dry_run`: only ask the server, with its webhooks."""
    return await specs.write(
        client, served(SRIOVGPUDevice), gpu.name, desired.fields, dry_run=dry_run
    )


async def switched(
    client: Client,
    gpu: Gpu,
    desired: Desired,
    *,
    waiting: Waiting,
    listener: Listener = SILENT,
) -> Outcome:
    """Store the change and wait until the agent has applied it."""
    change = change_of(gpu, desired)
    return await applied(
        client,
        change,
        lambda: write(client, gpu, desired),
        of_gpu,
        waiting=waiting,
        listener=listener,
    )
