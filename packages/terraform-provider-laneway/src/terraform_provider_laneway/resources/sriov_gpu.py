"""`laneway_sriov_gpu`: the virtual functions and the mode of a GPU."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.changes import gpus as changes
from laneway.changes import trial
from laneway.changes.errors import RefusedError
from laneway.changes.gpus import Desired
from laneway.core.gpu.modes import Mode
from laneway.core.phrases import few
from laneway.kube.client import Client
from laneway.views.gpus import Gpu
from terraform_provider_laneway import gpus, holders, mistakes
from terraform_provider_laneway.problems import ProblemError, refused
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import FLAG, TEXT, TEXTS, State, or_unset


class SriovGpu(ManagedResource):
    """A GPU that is shared."""

    name: ClassVar[str] = "sriov_gpu"
    key: ClassVar[tuple[str, ...]] = ("gpu",)
    subject: ClassVar[str] = "gpu"
    about: ClassVar[str] = (
        "The virtual functions of a GPU, on which vGPUs are configured, and its mode. Destroying "
        "it disables the functions, once no VM has a vGPU of the GPU."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "gpu",
            TEXT,
            required=True,
            requires_replace=True,
            description="The GPU: the name of its SRIOVGPUDevice, or `NODE/ADDRESS`.",
        ),
        Attribute(
            "enabled",
            FLAG,
            optional=True,
            description="Create the virtual functions. Default: `true`.",
        ),
        Attribute(
            "mode",
            TEXT,
            optional=True,
            description=f"How the GPU is shared: {few(f'`{mode}`' for mode in Mode)}. Default: as "
            "it is.",
        ),
        Attribute("current_mode", TEXT, computed=True, description="How the GPU is shared now."),
        Attribute("node", TEXT, computed=True, description="The node of the GPU."),
        Attribute("address", TEXT, computed=True, description="PCI address of the GPU."),
        Attribute(
            "virtual_functions",
            TEXTS,
            computed=True,
            description="PCI addresses of the virtual functions, in order.",
        ),
        Attribute(
            "vgpu_devices",
            TEXTS,
            computed=True,
            description="Names of their VGPUDevices, in the same order.",
        ),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        return mistakes.mode(config, Mode)

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        gpu = await gpus.find(client, config["gpu"])
        desired = _desired(config)
        if not list(changes.differences(gpu, desired)):
            return
        for words in _against(gpu, desired):
            yield refused(words, [_subject(config)])
        await changes.write(client, gpu, desired, dry_run=True)
        found = await trial.ask(
            client, gpu, changes.trial_spec(gpu, desired), seconds=gpus.TRIAL_SECONDS
        )
        for words in found.refusals:
            yield refused(words, [_subject(config)])

    async def look(self, client: Client, state: State) -> State | None:
        if (gpu := await gpus.seen(client, state["gpu"])) is None:
            return None
        device = gpu.device
        # What the configuration leaves open is not Terraform's; after an import all is.
        decides = state.get("mode") is not None or state.get("node") is None
        return {
            "id": gpu.name,
            "gpu": state["gpu"],
            "enabled": or_unset(state, "enabled", device.spec.enabled, default=True),
            "mode": (device.spec.mode or None) if decides else None,
            "current_mode": device.status.mode,
            "node": gpu.node,
            "address": gpu.address,
            "virtual_functions": list(device.status.vf_addresses),
            "vgpu_devices": list(device.status.vgpu_devices),
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        del current
        gpu = await gpus.find(client, planned["gpu"])
        desired = _desired(planned)
        if list(changes.differences(gpu, desired)) and (why := list(_against(gpu, desired))):
            raise RefusedError(*why)
        await _switched(client, gpu, desired, self.patience(planned))

    async def remove(self, client: Client, current: State) -> None:
        found = await gpus.seen(client, current["gpu"])
        desired = Desired(False)
        if found is None or not list(changes.differences(found, desired)):
            return
        gpu = found
        seconds = self.patience(current)
        names = [vgpu.metadata.name for vgpu in gpu.vgpus]
        await holders.released(
            client, names, lambda: changes.write(client, gpu, desired, dry_run=True), seconds
        )
        gpu = await gpus.find(client, current["gpu"])
        if why := list(_against(gpu, desired)):
            raise RefusedError(*why)
        await _switched(client, gpu, desired, seconds)


def _desired(state: State) -> Desired:
    enabled = state.get("enabled")
    return Desired(enabled is None or bool(enabled), state.get("mode"))


def _subject(state: State) -> str:
    """The attribute that a refusal is about."""
    return "mode" if state.get("mode") is not None else "gpu"


def _against(gpu: Gpu, desired: Desired) -> list[str]:
    away = changes.unreachable(gpu)
    return [*([away] if away else []), *changes.against(gpu, desired)]


async def _switched(client: Client, gpu: Gpu, desired: Desired, seconds: int) -> None:
    waiting = gpus.waiting(client, gpu, seconds)
    outcome = await changes.switched(client, gpu, desired, waiting=waiting)
    gpus.settled(outcome, ["gpu"])
