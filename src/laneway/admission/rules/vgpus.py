"""VGPUDevices: which vGPU a virtual function carries.

What is possible on a function the driver says, and it says another thing with every vGPU that is
made; so the status that is known now is asked, not the one that the client has read. Agents ask
the driver themselves.

While a vGPU of the GPU is about to go, because of a desired state that its agent has not answered
yet, what the driver said holds for a moment only. Then any profile that the GPU has passes with a
warning, and the agent decides by what the driver says afterwards.
"""

from __future__ import annotations

from collections import Counter

from laneway.admission.rules import workloads
from laneway.admission.rules.common import (
    Case,
    Findings,
    Parts,
    fixed,
    in_use,
    pci_name,
    place,
    rules,
    there,
)
from laneway.admission.rules.keeping import kept_for
from laneway.admission.rules.owning import owned_by_layout
from laneway.admission.world import PARENT, World
from laneway.api import SRIOVGPUDevice, VGPUDevice, find_condition
from laneway.controllers.devices.outcome import IN_PROGRESS
from laneway.controllers.devices.vgpu_room import of_gpu, why_not
from laneway.core.gpu.modes import Mode
from laneway.core.phrases import counted, few, several, short_name, shown
from laneway.core.reasons.former import renamed
from laneway.core.refusals import GpuNotReady, ProfileMissingInWrite, ProfileNotOffered, reason_of
from laneway.core.vgpu.profiles import framebuffer_mib

KIND = "vgpudevice"
_COMING = (IN_PROGRESS, reason_of(GpuNotReady))
"""Answers to a desired state that is only not met yet."""


def _node_of(vgpu: VGPUDevice, _world: World) -> str:
    return vgpu.spec.node_name


def _create(case: Case[VGPUDevice], new: VGPUDevice) -> Findings:
    spec = new.spec
    if (wrong := place(case.name, spec.address, spec.node_name)) is not None:
        yield wrong
        return
    # The function itself comes with its GPU being enabled.
    yield from there(case.world, pci_name(spec.node_name, spec.parent_gpu_device_address))
    if spec.enabled:
        yield from _for_containers(case, new)
        if not spec.vgpu_type_name:
            yield ProfileMissingInWrite(case.name, ())


def _update(case: Case[VGPUDevice], old: VGPUDevice, new: VGPUDevice) -> Findings:
    before, after = old.spec, new.spec
    parent = before.parent_gpu_device_address, after.parent_gpu_device_address
    yield from fixed(
        KIND,
        case.name,
        (
            ("address", "spec.address", before.address, after.address),
            ("nodeName", "spec.nodeName", before.node_name, after.node_name),
            ("parentGPUDeviceAddress", "spec.parentGPUDeviceAddress", *parent),
        ),
    )
    changed = before.vgpu_type_name != after.vgpu_type_name
    if not case.trusted and (changed or before.enabled != after.enabled):
        gpu = pci_name(before.node_name, before.parent_gpu_device_address)
        if owned := tuple(owned_by_layout(case.world, gpu)):
            yield from owned
            return
    if before.enabled and (changed or not after.enabled):
        used = tuple(in_use(case.world, [case.name]))
        yield from used
        if not (used or after.enabled):
            yield from kept_for(case.world, case.name, before.node_name, _known(case, old).status)
    if after.enabled and not case.trusted and (changed or not before.enabled):
        yield from _for_containers(case, old)
        yield from _possible(case, old, after.vgpu_type_name)


def _for_containers(case: Case[VGPUDevice], vgpu: VGPUDevice) -> Findings:
    node = vgpu.spec.node_name
    gpu = pci_name(node, vgpu.spec.parent_gpu_device_address)
    yield from workloads.against(case.world, gpu, node, workloads.of_card(case.world, gpu, node))


def _known(case: Case[VGPUDevice], old: VGPUDevice) -> VGPUDevice:
    """The cache may lag behind a status that the client has waited for."""
    known = case.world.vgpus.get(case.name)
    return known if known is not None and known.status.observed_generation else old


def _possible(case: Case[VGPUDevice], old: VGPUDevice, profile: str) -> Findings:
    """That the driver would not make this vGPU there.

    To another profile than the present one a function changes when its vGPU is gone. What will be
    possible then is not known now, so only a profile that the GPU has not is refused.
    """
    known = _known(case, old)
    status = known.status
    offered = tuple(sorted(status.available_types))
    if not profile:
        yield ProfileMissingInWrite(case.name, offered)
        return
    if profile == status.configure_vgpu_type_name:
        return
    gpu = case.world.gpus.get(pci_name(known.spec.node_name, known.spec.parent_gpu_device_address))
    if profile in status.available_types:
        if gpu is not None and (taken := _taken(case, gpu, profile)):
            left = tuple(one for one in offered if not _taken(case, gpu, one))
            yield ProfileNotOffered(case.name, profile, taken, left)
        return
    has = of_gpu(gpu)
    perhaps = profile in has or not (has or offered)
    if perhaps and old.spec.enabled:
        return
    if perhaps and (leaving := _leaving(case, old, gpu)):
        yield (
            f"Laneway is removing the vGPU of {few(leaving)}. The condition Ready of {case.name} "
            f"then says whether the GPU has room for {shown(short_name(profile))}."
        )
        return
    instances = case.world.migs.get(gpu.metadata.name) if gpu is not None else None
    why = why_not(known, gpu, profile, instances)
    yield ProfileNotOffered(case.name, profile, why, offered)


def _taken(case: Case[VGPUDevice], gpu: SRIOVGPUDevice, profile: str) -> str:
    """Why there will be no room for a profile once everything admitted before is made.

    What the driver offers is a matter of seconds ago, so the desired states are counted. How many
    there can be one status tells, of the GPU at one moment, so that nothing is counted twice.
    """
    status = gpu.status
    desired: Counter[str] = Counter()
    for one in case.world.vgpus.by(PARENT, gpu.metadata.name):
        if one.metadata.name != case.name and one.spec.enabled and not _is_refused(one):
            desired[one.spec.vgpu_type_name] += 1
    if status.mode == Mode.SAME_SIZE:
        sizes = {name for name in desired if framebuffer_mib(name) != framebuffer_mib(profile)}
        if sizes and framebuffer_mib(profile):
            others = counted(sorted((name, desired[name]) for name in sizes))
            return (
                f"Other VGPUDevices request {others} on the GPU. In mode SameSize all vGPUs of a "
                "GPU have one size."
            )
    most = status.configured.get(profile, 0) + status.fits.get(profile, 0)
    if profile in status.fits and desired[profile] >= most:
        return (
            f"Other VGPUDevices request {several(profile, desired[profile])} on the GPU, which has "
            f"room for {most}."
        )
    return ""


def _is_refused(vgpu: VGPUDevice) -> bool:
    """Whether its agent has said that a spec cannot be met now, so that it takes no room."""
    ready = find_condition(vgpu.status.conditions, "Ready")
    answered = vgpu.status.observed_generation >= vgpu.metadata.generation
    waits = ready is not None and ready.status == "False" and renamed(ready.reason) not in _COMING
    return answered and waits and not vgpu.status.configure_vgpu_type_name


def _leaving(
    case: Case[VGPUDevice], old: VGPUDevice, gpu: SRIOVGPUDevice | None
) -> tuple[str, ...]:
    """Functions of the GPU whose vGPU is not desired any more, and is being removed or will be.

    Of the function that is written itself, `old` is what the API server has, which a watch may
    still have to tell.
    """
    of_gpu = case.world.vgpus.by(PARENT, gpu.metadata.name) if gpu is not None else ()
    others = [one for one in of_gpu if one.metadata.name != case.name]
    return tuple(sorted(one.metadata.name for one in (old, *others) if _is_leaving(one)))


def _is_leaving(vgpu: VGPUDevice) -> bool:
    desired = vgpu.spec.vgpu_type_name if vgpu.spec.enabled else ""
    carried = vgpu.status.configure_vgpu_type_name
    ready = find_condition(vgpu.status.conditions, "Ready")
    under_way = ready is not None and ready.reason == IN_PROGRESS
    answered = vgpu.status.observed_generation >= vgpu.metadata.generation and not under_way
    return carried not in ("", desired) and not answered


def _delete(case: Case[VGPUDevice], _old: VGPUDevice) -> Findings:
    used = tuple(in_use(case.world, [case.name]))
    yield from used
    if not used and case.world.pci_devices.get(case.name) is not None:
        yield (
            f"The agent creates {KIND} {case.name} again, with the vGPU that it finds, as long as "
            "the function exists."
        )


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update, delete=_delete))
