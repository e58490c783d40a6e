"""What vGPUs of one machine may not be together: so many of a profile, and so many displays.

How many vGPUs of a profile a machine may have is data, not a rule of ours: it differs by series,
board and release of the driver. Of what the catalogue has no number nothing is said. A profile that
allows one vGPU allows no other beside it either, so all vGPUs of the machine are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.admission.machines.devices import find
from laneway.admission.world import RESOURCE, World
from laneway.core.refusals import Refusal, SeveralDisplays, VgpusPerMachine
from laneway.core.vgpu.catalogue import VgpuProfile, profile_named, profiles_of
from laneway.kube.kubevirt import DeviceRequest


def too_many(requests: Sequence[DeviceRequest], world: World) -> Iterator[Refusal]:
    """The profiles that do not allow so many vGPUs."""
    profiles = [name for one in requests if (name := _profile(one, world))]
    for name in sorted(set(profiles)):
        profile = profile_named(name)
        if profile is None or profile.max_per_vm is None or len(profiles) <= profile.max_per_vm:
            continue
        yield VgpusPerMachine(
            name, len(profiles), profile.max_per_vm, _instead(profile, len(profiles))
        )


def _profile(request: DeviceRequest, world: World) -> str:
    """The profile of the vGPU that an entry asks for; empty when it asks for something else."""
    found = find(world, request.name)
    vgpu = found.vgpu if found is not None and request.device_name in found.resources else None
    if vgpu is None:
        vgpu = world.vgpus.first(RESOURCE, request.device_name)
    return "" if vgpu is None else vgpu.status.configure_vgpu_type_name


def _instead(profile: VgpuProfile, count: int) -> tuple[str, ...]:
    return tuple(
        one.name
        for one in profiles_of(profile.device)
        if one.board == profile.board and one.max_per_vm is not None and one.max_per_vm >= count
    )


def displays(gpus: Sequence[DeviceRequest]) -> Iterator[Refusal]:
    """More than one display with ramFB, as KubeVirt counts them: what is not said is on."""
    names = [one.name for one in gpus if _shows(one)]
    if len(names) > 1:
        yield SeveralDisplays(tuple(names))


def _shows(request: DeviceRequest) -> bool:
    options = request.virtual_gpu_options
    display = options.display if options is not None else None
    if display is None or display.enabled is False:
        return False
    return display.ram_fb is None or display.ram_fb.enabled is not False
