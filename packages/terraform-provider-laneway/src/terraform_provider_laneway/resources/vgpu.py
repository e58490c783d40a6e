"""`laneway_vgpu`: the vGPU of a virtual function, or of any free one of a GPU."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import VGPUDevice, find_condition
from laneway.changes import vgpu_devices
from laneway.changes.errors import RefusedError
from laneway.changes.vgpu_devices import Desired
from laneway.changes.watching import states
from laneway.changes.writing import Change, applied, in_force
from laneway.controllers.devices.vgpu_room import of_gpu, why_not
from laneway.core import keys
from laneway.core.refusals import ProfileNotOffered
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.views.answers import answer_of
from laneway.views.gpus import Gpu
from terraform_provider_laneway import gpus, holders
from terraform_provider_laneway.problems import ProblemError, notice, refused
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import TEXT, State, is_unknown

_DEVICES = served(VGPUDevice)
_ADVERTISED_SECONDS = 30.0
"""How long a vGPU that exists is waited for until VMs can request it."""


class Vgpu(ManagedResource):
    """One vGPU."""

    name: ClassVar[str] = "vgpu"
    key: ClassVar[tuple[str, ...]] = ("device",)
    subject: ClassVar[str] = "profile"
    about: ClassVar[str] = (
        "A vGPU on one virtual function of a GPU that is enabled, or on any free function of a "
        "GPU. To configure all vGPUs of a GPU at once, use `laneway_vgpu_layout`."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "device",
            TEXT,
            optional=True,
            computed=True,
            requires_replace=True,
            description="Name of the VGPUDevice: `node1-000008004`. Without it, a free function of "
            "`gpu` is taken.",
        ),
        Attribute(
            "gpu",
            TEXT,
            optional=True,
            requires_replace=True,
            description="The GPU, of which any free function is taken: the name of its "
            "SRIOVGPUDevice, or `NODE/ADDRESS`. Give it or `device`.",
        ),
        Attribute(
            "profile",
            TEXT,
            required=True,
            description="The profile, `A2-4Q`, or as the driver prints it, `NVIDIA A2-4Q`. It is "
            "changed in place while no VM has the vGPU.",
        ),
        Attribute("node", TEXT, computed=True, description="The node of the GPU."),
        Attribute("address", TEXT, computed=True, description="PCI address of the function."),
        Attribute(
            "resource_name",
            TEXT,
            computed=True,
            description="The resource that VMs request: `nvidia.com/NVIDIA_A2-4Q`.",
        ),
        Attribute(
            "uuid", TEXT, computed=True, description="UUID of the vGPU, or the driver's type id."
        ),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        device, gpu = config.get("device"), config.get("gpu")
        if is_unknown(device) or is_unknown(gpu):
            return []
        if (device is None) == (gpu is None):
            words = "Give device, or gpu for any free function of a GPU, and not both."
            return [ProblemError("Which virtual function is not clear", words, ["device"])]
        return []

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        if config["gpu"] is not None:
            of = await gpus.find(client, config["gpu"])
            gpus.in_full(of, {config["profile"]: 1}, ["profile"])
            return
        try:
            device, gpu = await _device(client, config["device"])
        except NotFoundError:
            words = (
                f"The cluster has no VGPUDevice {config['device']}. It has to be there when the "
            )
            yield notice("Not checked", f"{words}vGPU is created.", ["device"])
            return
        for problem in _against(device, gpu, config["profile"]):
            yield problem

    async def look(self, client: Client, state: State) -> State | None:
        try:
            device, gpu = await _device(client, state["device"])
        except NotFoundError:
            return None
        if not device.spec.enabled:
            return None
        profile, status = device.spec.vgpu_type_name, device.status
        written = [state["profile"]] if state.get("profile") else []
        return {
            "id": device.metadata.name,
            "device": device.metadata.name,
            "gpu": state.get("gpu"),
            "profile": gpus.as_written([gpu] if gpu else [], written, profile),
            "node": device.spec.node_name,
            "address": device.spec.address,
            "resource_name": status.resource_name,
            "uuid": status.uuid,
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        seconds = self.patience(planned)
        async with _chosen(client, planned) as name:
            planned["device"] = name
            device, gpu = await _existing(client, name)
            profile = next(iter(gpus.in_full(gpu, {planned["profile"]: 1}, ["profile"])))
            if current is None and device.spec.enabled and device.spec.vgpu_type_name != profile:
                raise _configured(device)
            for problem in _against(device, gpu, planned["profile"]):
                raise problem
            await _write(client, device, gpu, Desired(profile), seconds)
        await _advertised(client, name)

    async def remove(self, client: Client, current: State) -> None:
        name, seconds = current["device"], self.patience(current)
        nothing = Desired("")
        try:
            device, gpu = await _device(client, name)
            if gpu is None or nothing.is_met(device):
                return
            if reasons := list(vgpu_devices.against(device, gpu.name, ())):
                raise RefusedError(*reasons)
            await holders.released(
                client,
                [name],
                lambda: vgpu_devices.write(client, name, nothing, dry_run=True),
                seconds,
            )
            device, gpu = await _existing(client, name)
            await _write(client, device, gpu, nothing, seconds)
        except NotFoundError:
            return


async def _device(client: Client, name: str) -> tuple[VGPUDevice, Gpu | None]:
    """A function and its GPU. Raises NotFoundError."""
    device = await client.get(_DEVICES, name)
    parent = device.metadata.labels.get(keys.LABEL_PARENT_GPU, "")
    return device, await gpus.seen(client, parent) if parent else None


async def _existing(client: Client, name: str) -> tuple[VGPUDevice, Gpu]:
    """The same where both have to exist. Raises ProblemError."""
    try:
        device, gpu = await _device(client, name)
    except NotFoundError:
        raise ProblemError(
            "No such virtual function",
            f"The cluster has no VGPUDevice {name}. kubectl get vgpudevices lists them; those of a "
            "GPU exist once its SRIOVGPUDevice is enabled.",
            ["device"],
        ) from None
    if gpu is None:
        raise ProblemError("No such GPU", f"The GPU of VGPUDevice {name} is not known.", ["device"])
    return device, gpu


def _against(device: VGPUDevice, gpu: Gpu | None, written: str) -> Iterator[ProblemError]:
    """What speaks against a profile on a function, as far as objects show it."""
    if gpu is None:
        return
    try:
        [profile] = gpus.in_full(gpu, {written: 1}, ["profile"])
    except ProblemError as problem:
        yield problem
        return
    if Desired(profile).is_met(device):
        return
    for words in vgpu_devices.against(device, gpu.name, ()):
        yield refused(words, ["device"])
    offered, has = tuple(sorted(device.status.available_types)), of_gpu(gpu.device)
    possible = profile in offered or (device.spec.enabled and profile in has)
    if possible or not (has or offered) or profile == device.status.configure_vgpu_type_name:
        return
    why = why_not(device, gpu.device, profile, gpu.mig)
    yield refused(ProfileNotOffered(device.metadata.name, profile, why, offered).words, ["profile"])


def _configured(device: VGPUDevice) -> ProblemError:
    name, profile = device.metadata.name, device.spec.vgpu_type_name
    return ProblemError(
        "Configured already",
        f"VGPUDevice {name} has a vGPU {profile} that Terraform has not made. To manage it with "
        f"Terraform: terraform import ADDRESS {name}",
        ["device"],
    )


async def _write(
    client: Client, device: VGPUDevice, gpu: Gpu, desired: Desired, seconds: int
) -> None:
    """Store what a function is to have and wait for its agent. Raises ProblemError, ChangeError."""
    name = device.metadata.name
    change = Change(
        resource=_DEVICES,
        plural="vgpudevice",
        name=name,
        gpu=gpu,
        before=_before(device, desired),
        changes=not desired.is_met(device),
    )
    outcome = await applied(
        client,
        change,
        lambda: vgpu_devices.write(client, name, desired),
        lambda found, generation: answer_of(found.status, generation),
        waiting=gpus.waiting(client, gpu, seconds),
    )
    gpus.settled(outcome, ["profile"])


def _before(device: VGPUDevice, desired: Desired) -> Mapping[str, Any]:
    spec, status = device.spec, device.status
    was = {"enabled": spec.enabled, "vGPUTypeName": spec.vgpu_type_name}
    found = {"enabled": bool(status.vgpu_status), "vGPUTypeName": status.configure_vgpu_type_name}
    is_refused = answer_of(status, device.metadata.generation).kind == "refused"
    return in_force({key: was[key] for key in desired.fields}, found=found, refused=is_refused)


async def _advertised(client: Client, name: str) -> None:
    """Wait until VMs can request the vGPU, for as long as that usually takes."""

    def away(_: Exception) -> None:
        pass

    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(_ADVERTISED_SECONDS),
            contextlib.aclosing(states(client, _DEVICES, away, name)) as found,
        ):
            async for raw in found:
                if raw is None:
                    return
                said = find_condition(_DEVICES.decode(raw).status.conditions, "Advertised")
                if said is not None and said.status == "True":
                    return


# ------------------------------------------------------------------------ any free function

_TAKEN: set[str] = set()
"""Functions that resources which are created at the same time have chosen."""


@contextlib.asynccontextmanager
async def _chosen(client: Client, planned: State) -> AsyncIterator[str]:
    """The function that is meant; of any free one no other resource takes it meanwhile."""
    name = planned.get("device")
    if name is None or is_unknown(name):
        gpu = await gpus.find(client, planned["gpu"])
        name = _free(gpu)
    _TAKEN.add(name)
    try:
        yield name
    finally:
        _TAKEN.discard(name)


def _free(gpu: Gpu) -> str:
    for one in gpu.vgpus:
        is_free = not one.spec.enabled and not one.status.vgpu_status
        if is_free and one.metadata.name not in _TAKEN:
            return one.metadata.name
    why = "all of its virtual functions have vGPUs" if gpu.vgpus else "it is not enabled"
    raise refused(f"{gpu.title} has no free virtual function: {why}.", ["gpu"])
