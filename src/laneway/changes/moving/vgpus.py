"""A vGPU more or less on a GPU, by whatever configures the vGPUs of that GPU.

That is its own VGPULayout, where it has one, or else the VGPUDevice of one of its functions. A
layout that selects more GPUs is not changed: it has the same vGPUs for all of them, and no field
for one GPU alone. To take the GPU out of it is left to the user: where the layout selects by label
or device id, it would have to name all other GPUs from then on, and would get no new ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from laneway.api import VGPUDevice, VGPULayout
from laneway.changes import vgpu_devices, watching
from laneway.changes import vgpus as whole
from laneway.changes.answered import denial
from laneway.changes.errors import ChangeError, RefusedError
from laneway.changes.gpus import unreachable
from laneway.changes.moving import instances
from laneway.changes.moving.instances import Division
from laneway.changes.moving.work import Forwarding, Seen, Work, judge, until, waiting
from laneway.changes.trial import refusal_words
from laneway.changes.vgpu_devices import Desired
from laneway.changes.writing import Change, Outcome, applied
from laneway.core.fleet import moves_again as again
from laneway.core.phrases import short_name
from laneway.core.refusals import (
    AllocationUnknown,
    DeviceAllocated,
    DeviceHeld,
    HoldersUnknown,
    UpdateRejected,
    reason_of,
)
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import served
from laneway.views.answers import answer_of
from laneway.views.gpus import Gpu
from laneway.views.vgpu_state import owner_layout
from laneway.views.vgpus import profiles

_RELEASING = {
    reason_of(one)
    for one in (DeviceAllocated, AllocationUnknown, DeviceHeld, HoldersUnknown, UpdateRejected)
}
"""Refusals of what a VM may just have left."""
_RELEASE_SECONDS = 15.0
"""Until what a VM has just left is reported as free."""


def own_layout(gpu: Gpu) -> VGPULayout | None:
    """The layout by which the vGPUs of this GPU alone are configured; None: by VGPUDevices.

    Raises RefusedError where another layout configures them.
    """
    owners = {owner_layout(one.status.owner) for one in gpu.vgpus} - {""}
    if others := owners - {gpu.name}:
        name = min(others)
        raise RefusedError(
            f"VGPULayout {name} configures {gpu.title}, and gives all GPUs that it selects the "
            "same vGPUs, so this command does not change it. Take the GPU out of its gpuSelector "
            f"(kubectl edit vgpulayout {name}), or delete it where it selects no other (kubectl "
            f"delete vgpulayout {name}): the vGPUs stay as they are"
        )
    own = whole.own_layout(gpu, [layout for layout, _ in gpu.layouts], "this command")
    return own if owners else None


def against(gpu: Gpu) -> str:
    """Why this command cannot configure vGPUs on a GPU; empty: it can."""
    if away := unreachable(gpu):
        return away
    try:
        own_layout(gpu)
    except RefusedError as refused:
        return str(refused)
    if not gpu.vgpus:
        return f"{gpu.title} has no virtual functions: laneway gpu enable {gpu.title}"
    return ""


def going(gpu: Gpu) -> dict[str, str]:
    """The vGPUs of a GPU that are still there although their removal is requested, with words."""
    return {
        name: f"VGPUDevice {name}: its removal is requested and still under way. To watch: kubectl "
        f"get vgpudevice {name} --watch"
        for name in (
            one.metadata.name
            for one in gpu.vgpus
            if one.status.vgpu_status and not one.spec.enabled
        )
    }


class Making(NamedTuple):
    """A vGPU that is to be made."""

    gpu: str
    profile: str
    function: str
    """The VGPUDevice that is to get it; empty: a layout chooses one."""
    before: frozenset[str]
    """The VGPUDevices of the GPU that had a vGPU."""
    division: Division | None = None
    """The GPU instances that are to be there first."""

    def made(self, gpu: Gpu) -> list[VGPUDevice]:
        """What has come since."""
        return [
            one
            for one in gpu.vgpus
            if (one.status.vgpu_status or one.spec.enabled)
            and one.metadata.name not in self.before
            and self.profile in (one.status.configure_vgpu_type_name, one.spec.vgpu_type_name)
            and self.function in ("", one.metadata.name)
        ]


async def planned(work: Work, name: str, profile: str, function: str = "") -> Making:
    """One more vGPU of a profile on a GPU. Raises ChangeError where none can be made.

    `function`: the VGPUDevice that it had before, which gets it again where that can be chosen.
    """
    seen = await work.look()
    gpu = seen.gpu(name)
    if why := against(gpu):
        raise ChangeError(why)
    there = [one for one in gpu.vgpus if one.spec.enabled or one.status.vgpu_status]
    chosen, division = "", None
    if own_layout(gpu) is None:
        chosen = function or _free_function(gpu, profile).metadata.name
        division = instances.needed(seen, name, profile)
    return Making(name, profile, chosen, frozenset(one.metadata.name for one in there), division)


async def make(work: Work, making: Making) -> str:
    """Make it; the name of its VGPUDevice, once VMs can get it. Raises ChangeError."""
    gpu = (await work.look()).gpu(making.gpu)
    if (own := own_layout(gpu)) is not None:
        carried, _ = profiles(gpu)
        outcome = await _by_layout(work, gpu, own, Counter(carried) + Counter([making.profile]))
    else:
        if making.division is not None:
            await instances.divide(work, making.division)
        device = _function(gpu, making.function)
        outcome = await _by_device(work, gpu, device, Desired(making.profile))
    title = f"{short_name(making.profile)} on {making.gpu}"
    judge(outcome, title)
    made = ""

    def waits_for(seen: Seen) -> str:
        nonlocal made
        new = {one.metadata.name for one in making.made(seen.gpu(making.gpu))}
        found = next(one for one in seen.fleet.gpus if one.name == making.gpu)
        if taken := [one for one in found.vgpus if one.name in new and one.holder]:
            raise ChangeError(f"{taken[0].holder} took the new {title} meanwhile")
        made = next((one for one in again.ready(found, making.profile) if one in new), "")
        return "" if made else f"waiting until VMs can get the new {title}"

    await until(work, waits_for)
    return made


async def unmake(work: Work, making: Making) -> None:
    """Go back to what there was before, also where it was not finished."""
    gpu = (await work.look()).gpu(making.gpu)
    made = making.made(gpu)
    if own_layout(gpu) is not None:
        there = sum(bool(one.status.vgpu_status) for one in made)
        await _fewer(work, making.gpu, Counter({making.profile: there}))
        return
    for device in made:
        await remove(work, device.metadata.name)
    if making.division is not None:
        await instances.unite(work, making.division)


async def keep(work: Work, name: str, vgpu: str, profile: str) -> None:
    """Take back that a vGPU is to go, which is there still. Raises ChangeError."""
    gpu = (await work.look()).gpu(name)
    if (own := own_layout(gpu)) is not None:
        outcome = await _by_layout(work, gpu, own, Counter(profiles(gpu)[0]))
    else:
        outcome = await _by_device(work, gpu, _function(gpu, vgpu), Desired(profile))
    judge(outcome, f"to keep {vgpu}")


async def remove(work: Work, vgpu: str) -> None:
    """One vGPU less, if it is there. Raises ChangeError where a VM has it, or it stays."""
    seen = await work.look()
    for gpu in seen.gpus.values():
        for one in gpu.vgpus:
            if one.metadata.name == vgpu and (one.status.vgpu_status or one.spec.enabled):
                profile = one.status.configure_vgpu_type_name or one.spec.vgpu_type_name
                await _fewer(work, gpu.name, Counter([profile]), vgpu)

    def waits_for(now: Seen) -> str:
        there = any(one.name == vgpu for each in now.fleet.gpus for one in each.vgpus)
        return f"waiting until VGPUDevice {vgpu} has no vGPU any more" if there else ""

    await until(work, waits_for)


async def _fewer(work: Work, name: str, less: Counter[str], vgpu: str = "") -> None:
    """Remove vGPUs, again for a while where a VM seems to have them still: reports come late.

    `vgpu`: the VGPUDevice, where no layout decides which one goes.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _RELEASE_SECONDS
    there, _ = profiles((await work.look()).gpu(name))
    wanted = Counter(there) - less
    while True:
        gpu = (await work.look()).gpu(name)
        try:
            if (own := own_layout(gpu)) is not None:
                outcome = await _by_layout(work, gpu, own, wanted)
            else:
                device = _function(gpu, vgpu)
                outcome = await _by_device(work, gpu, device, Desired(""))
        except ForbiddenError as error:
            if not denial(error) or loop.time() > end:
                raise
            words = denial(error)
        else:
            if outcome.answer.reason not in _RELEASING or loop.time() > end:
                judge(outcome, f"to remove {vgpu or f'vGPUs of {name}'}")
                return
            words = refusal_words(outcome.answer)
        work.listener.progress(f"not possible yet: {words}")
        await asyncio.sleep(watching.AGAIN_SECONDS)


def _function(gpu: Gpu, name: str) -> VGPUDevice:
    for one in gpu.vgpus:
        if one.metadata.name == name:
            return one
    raise ChangeError(f"VGPUDevice {name} is not there any more")


def _free_function(gpu: Gpu, profile: str) -> VGPUDevice:
    free = [one for one in gpu.vgpus if not (one.spec.enabled or one.status.vgpu_status)]
    offering = [one for one in free if profile in one.status.available_types]
    if not free:
        raise ChangeError(f"no function of {gpu.title} is free")
    return (offering or free)[0]


async def _by_device(work: Work, gpu: Gpu, device: VGPUDevice, desired: Desired) -> Outcome:
    spec = device.spec
    change = Change(
        resource=served(VGPUDevice),
        plural="vgpudevice",
        name=device.metadata.name,
        gpu=gpu,
        before={"enabled": spec.enabled, "vGPUTypeName": spec.vgpu_type_name},
        changes=not desired.is_met(device),
    )
    return await applied(
        work.client,
        change,
        lambda: vgpu_devices.write(work.client, device.metadata.name, desired),
        lambda one, generation: answer_of(one.status, generation),
        waiting=waiting(work, gpu.name),
        listener=Forwarding(work.listener),
    )


async def _by_layout(work: Work, gpu: Gpu, own: VGPULayout, wanted: Counter[str]) -> Outcome:
    return await whole.configured(
        work.client,
        gpu,
        whole.Desired(dict(sorted(wanted.items()))),
        own,
        waiting=waiting(work, gpu.name),
        listener=Forwarding(work.listener),
    )
