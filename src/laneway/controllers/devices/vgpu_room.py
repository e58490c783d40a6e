"""Why a profile is not possible on a virtual function now, by what the objects of its GPU say.

Admission refuses with these words, and the interface shows them at the profile before it is chosen.
"""

from __future__ import annotations

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.core.gpu.modes import GpuInstanceProfile, Mode, mode_named
from laneway.core.mig.profiles import bare_name, serving
from laneway.core.phrases import counted, short_name, shown
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.core.vgpu.profiles import profile as named


def of_gpu(gpu: SRIOVGPUDevice | None) -> set[str]:
    """The profiles that a GPU is known to have, whether they fit now or not."""
    return {*gpu.status.fits, *gpu.status.configured} if gpu is not None else set()


def why_not(
    known: VGPUDevice,
    gpu: SRIOVGPUDevice | None,
    profile: str,
    instances: MigConfiguration | None,
) -> str:
    """What is known about why a profile is not possible, as a sentence."""
    if gpu is not None and not gpu.spec.enabled:
        return f"SRIOVGPUDevice {gpu.metadata.name} is not enabled."
    if current := known.status.configure_vgpu_type_name:
        return f"The function already has {short_name(current)}."
    if gpu is not None and (odd := _other_mode(gpu, profile)):
        return odd
    if gpu is not None and profile in of_gpu(gpu):
        return _full(gpu, profile, instances)
    if of_gpu(gpu) or known.status.available_types:
        return "The driver has no profile of this name for the GPU."
    if not known.status.observed_generation:
        return "The agent of the node has not reported on the function yet."
    return "The driver offers no profile on this function."


def _other_mode(gpu: SRIOVGPUDevice, profile: str) -> str:
    """That a profile is for GPUs in another mode than this one."""
    known, mode = named(profile), mode_named(gpu.status.mode)
    if known is None or mode is None or known.mig_backed == mode.has_mig:
        return ""
    if known.mig_backed:
        return f"{shown(short_name(profile))} needs a GPU instance, and the GPU is in mode {mode}."
    return f"{shown(short_name(profile))} is time-sliced, and the GPU is in mode {mode}."


def _full(gpu: SRIOVGPUDevice, profile: str, instances: MigConfiguration | None) -> str:
    """Why no more of a profile fit that the GPU has."""
    known, status = named(profile), gpu.status
    if known is not None and known.mig_backed and instances is not None:
        reported = instances.status.profile_status
        offered = [GpuInstanceProfile(bare_name(p.name), p.id, p.total, (), 0) for p in reported]
        there = [(bare_name(p.name), len(p.vgpu_ids)) for p in reported if p.vgpu_ids]
        found = serving(profile, offered)
        if found and found[1].name not in dict(there):
            return (
                f"The profile needs a GPU instance {found[1].name}, and the GPU has "
                f"{counted(there) if there else 'none'}. Request one in MigConfiguration "
                f"{instances.metadata.name}."
            )
    size = framebuffer_mib(profile)
    if status.mode == Mode.SAME_SIZE and any(
        framebuffer_mib(name) != size for name in status.configured
    ):
        return (
            f"The GPU has {counted(sorted(status.configured.items()))}, and all of its vGPUs have "
            "one size in mode SameSize. Request that size, or set the GPU's spec.mode to MixedSize."
        )
    left = status.fits.get(profile, 0)
    carries = counted(sorted(status.configured.items()))
    room = f"room for {left} more" if left else "no room for another of this profile"
    return f"The GPU has {carries}, and {room}."
