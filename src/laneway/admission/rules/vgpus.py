"""VGPUDevices: which vGPU a virtual function carries.

What is possible on a function the driver says, and it says another thing with every vGPU that is
made; so the status that is known now is asked, not the one that whoever asks has read. Agents ask
the driver themselves.

While a vGPU of the GPU is about to go, because of a wish that its agent has not answered yet, what
the driver said holds for a moment only. Then any profile that the GPU has passes with a warning,
and the agent decides by what the driver says afterwards.
"""

from __future__ import annotations

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
from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.core.phrases import counted, few, shown
from laneway.core.refusals import ProfileNotNamed, ProfileNotOffered

KIND = "vgpudevice"


def _node_of(vgpu: VGPUDevice, _world: World) -> str:
    return vgpu.spec.node_name


def _create(case: Case[VGPUDevice], new: VGPUDevice) -> Findings:
    spec = new.spec
    if (wrong := place(case.name, spec.address, spec.node_name)) is not None:
        yield wrong
        return
    # The function itself comes with its GPU being enabled.
    yield from there(case.world, pci_name(spec.node_name, spec.parent_gpu_device_address))
    if spec.enabled and not spec.vgpu_type_name:
        yield ProfileNotNamed(case.name, ())


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
        yield from _possible(case, old, after.vgpu_type_name)


def _known(case: Case[VGPUDevice], old: VGPUDevice) -> VGPUDevice:
    """The cache may lag behind a status that whoever asks has waited for."""
    known = case.world.vgpus.get(case.name)
    return known if known is not None and known.status.observed_generation else old


def _possible(case: Case[VGPUDevice], old: VGPUDevice, profile: str) -> Findings:
    """That the driver would not make this vGPU there.

    To another profile than the present one a function changes when its vGPU is gone. What will be
    possible then nobody says now, so only a profile that the GPU has not is refused.
    """
    known = _known(case, old)
    status = known.status
    offered = tuple(sorted(status.available_types))
    if not profile:
        yield ProfileNotNamed(case.name, offered)
        return
    if profile in status.available_types or profile == status.configure_vgpu_type_name:
        return
    gpu = case.world.gpus.get(pci_name(known.spec.node_name, known.spec.parent_gpu_device_address))
    of_gpu = {*gpu.status.fits, *gpu.status.configured} if gpu is not None else set()
    perhaps = profile in of_gpu or not (of_gpu or offered)
    if perhaps and old.spec.enabled:
        return
    if perhaps and (leaving := _leaving(case, old, gpu)):
        yield (
            f"{few(leaving)} is about to lose its vGPU: whether there is room for {shown(profile)} "
            f"on {case.name} then its condition Ready will say."
        )
        return
    yield ProfileNotOffered(case.name, profile, _why(known, gpu, profile, of_gpu), offered)


def _leaving(
    case: Case[VGPUDevice], old: VGPUDevice, gpu: SRIOVGPUDevice | None
) -> tuple[str, ...]:
    """Functions of the GPU whose vGPU is not wished any more, and whose agents have yet to say so.

    Of the function that is written itself, `old` is what the API server has, which a watch may
    still have to tell.
    """
    of_gpu = case.world.vgpus.by(PARENT, gpu.metadata.name) if gpu is not None else ()
    others = [one for one in of_gpu if one.metadata.name != case.name]
    return tuple(sorted(one.metadata.name for one in (old, *others) if _is_leaving(one)))


def _is_leaving(vgpu: VGPUDevice) -> bool:
    wished = vgpu.spec.vgpu_type_name if vgpu.spec.enabled else ""
    carried = vgpu.status.configure_vgpu_type_name
    answered = vgpu.status.observed_generation >= vgpu.metadata.generation
    return carried not in ("", wished) and not answered


def _why(known: VGPUDevice, gpu: SRIOVGPUDevice | None, profile: str, of_gpu: set[str]) -> str:
    """What is known about why a profile is not possible, as a sentence."""
    if gpu is not None and not gpu.spec.enabled:
        return f"SRIOVGPUDevice {gpu.metadata.name} is not enabled."
    if current := known.status.configure_vgpu_type_name:
        return f"The function carries a {current}."
    if gpu is not None and profile in of_gpu:
        there_now = counted(sorted(gpu.status.configured.items()))
        left = gpu.status.fits.get(profile, 0)
        return f"The GPU carries {there_now}, and takes {left} more of it."
    if of_gpu or known.status.available_types:
        return "The driver has no profile of that name for this GPU."
    if not known.status.observed_generation:
        return "Nothing is known of the function yet: its agent has not answered."
    return "The driver offers no profile there."


def _delete(case: Case[VGPUDevice], _old: VGPUDevice) -> Findings:
    used = tuple(in_use(case.world, [case.name]))
    yield from used
    if not used and case.world.pci_devices.get(case.name) is not None:
        yield (
            f"{KIND} {case.name}: as long as its function is there its agent makes the object "
            "anew, with the vGPU that is there."
        )


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update, delete=_delete))
