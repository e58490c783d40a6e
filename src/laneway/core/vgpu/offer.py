"""Why a GPU has nothing to offer, although it should, derived from a scan.

A driver that does not know a card model makes its virtual functions all the same, and every list
of profiles stays empty; so it does on a card in MIG mode without GPU instances, and on one that
shares itself through MIG only. A card whose SR-IOV is off in the firmware shows nothing at all that
says so, but the catalogue knows that it could.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import VgpuFunction
from laneway.core.pci import NVIDIA, PciFunction
from laneway.core.refusals import MigOnly, NoGpuInstances, NoProfiles, Refusal
from laneway.core.sriov.vfs import vf_count
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.profiles import profile

_AMPERE = 0x2000
"""The first PCI device id of GPUs whose vGPUs sit on virtual functions."""


def lacking(
    gpu: PciFunction, functions: Iterable[VgpuFunction], modes: GpuModes | None, driver: str
) -> Refusal | None:
    """Why a GPU with virtual functions offers no profile on any of them; None where it does.

    `functions`: of this GPU. `driver`: its release, empty when not known.
    """
    there = tuple(functions)
    if not vf_count(gpu) or any(one.configured or one.creatable for one in there):
        return None
    device = str(gpu.address)
    if modes is not None and modes.mig:
        return None if modes.instances else NoGpuInstances(device)
    # As mediated devices, types are listed also while none of them can be made.
    listed = [profile(kind.name) for one in there for kind in one.supported]
    # Only a driver that serves vGPUs at all shows on a function that it could carry one.
    if there and modes is not None and modes.mig is False:
        return MigOnly(device) if all(one and one.mig_backed for one in listed) else None
    return None if listed else NoProfiles(device, driver)


def sriov_off(function: PciFunction) -> bool:
    """Whether a GPU shows no SR-IOV although its model has it."""
    return (
        function.vendor == NVIDIA
        and function.is_gpu
        and function.physfn is None
        and not function.sriov_gpu
        and int(function.device, 16) >= _AMPERE
        and bool(profiles_of(function.device))
    )
