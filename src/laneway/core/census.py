"""What a node's GPUs, virtual functions and vGPUs are doing, counted by state.

Every state is counted, also with nothing in it: a number that goes away looks like one
that is not collected. Profiles are too many for that, so those that there are now are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, get_args

from laneway.core.fleet.fragmentation import Free
from laneway.core.gpu.desired import mode_of
from laneway.core.gpu.modes import Mode
from laneway.core.gpu.vendors import gpu_of
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import NVIDIA, PciFunction
from laneway.core.vgpu.capacity import still_fits
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.catalogue import profile_named
from laneway.core.vgpu.profiles import MIB_PER_GIB, framebuffer_mib

GpuState = Literal["enabled", "disabled", "passthrough", "undriven"]
"""Has virtual functions; has none; is a virtual machine's as a whole; no driver serves it."""
UNKNOWN = "unknown"
"""The mode of a GPU that could not be asked, and an unknown profile."""
VfKind = Literal["gpu", "network", "other"]
VfState = Literal["vgpu", "passthrough", "host", "free"]
"""Carries a vGPU; is on vfio-pci; is the node's own; none of these."""


def gpus(inventory: Inventory) -> dict[GpuState, int]:
    """NVIDIA GPUs that can have virtual functions."""
    found = Counter(_gpu_state(one) for one in inventory.functions if one.sriov_gpu)
    return {state: found[state] for state in get_args(GpuState)}


def _gpu_state(gpu: PciFunction) -> GpuState:
    if gpu.vfs:
        return "enabled"
    if gpu.driver == VFIO_DRIVER:
        return "passthrough"
    return "disabled" if gpu.driver else "undriven"


def modes(inventory: Inventory) -> dict[str, int]:
    """NVIDIA GPUs that can have virtual functions, by mode."""
    found = Counter(
        mode_of(one, inventory.modes.get(one.address)) or UNKNOWN
        for one in inventory.functions
        if one.sriov_gpu
    )
    return {mode: found[mode] for mode in (*map(str, Mode), UNKNOWN)}


def vfs(inventory: Inventory) -> dict[tuple[VfKind, VfState], int]:
    """Virtual functions that exist."""
    carrying = {one.address for one in inventory.vgpus if one.configured is not None}
    found = Counter(
        (_kind(one), "vgpu" if one.address in carrying else _vf_state(one))
        for one in inventory.functions
        if one.physfn is not None
    )
    every = ((kind, state) for kind in get_args(VfKind) for state in get_args(VfState))
    return {one: found[one] for one in every}


def _kind(vf: PciFunction) -> VfKind:
    if gpu_of(vf) is not None:
        return "gpu"
    return "network" if vf.class_code.startswith("02") else "other"


def _vf_state(vf: PciFunction) -> VfState:
    if vf.driver == VFIO_DRIVER:
        return "passthrough"
    # VFs of NVIDIA's stay on the driver that makes vGPUs on them.
    return "free" if vf.vendor == NVIDIA or not vf.driver else "host"


def vgpus(inventory: Inventory) -> dict[str, int]:
    """How many vGPUs of each profile exist."""
    return Counter(one.configured.type_name or UNKNOWN for one in inventory.vgpus if one.configured)


def missing(inventory: Inventory, desired: Mapping[str, str]) -> dict[str, int]:
    """How many vGPUs of each profile are desired and not there; `desired`: profiles by address.

    Anybody can request anything: what is no profile counts as one unknown profile.
    """
    there = {
        str(one.address): one.configured.type_name for one in inventory.vgpus if one.configured
    }
    listed = {kind.name for one in inventory.vgpus for kind in one.supported}
    return Counter(
        profile if profile in listed or profile_named(profile) else UNKNOWN
        for address, profile in desired.items()
        if there.get(address) != profile
    )


def free(inventory: Inventory) -> dict[str, int]:
    """How many more vGPUs of each profile could be made now, each profile for itself."""
    functions = inventory.by_gpu()
    found: Counter[str] = Counter()
    for gpu in inventory.functions:
        if gpu.address in functions and gpu.address in inventory.modes:
            modes_of = inventory.modes[gpu.address]
            found.update(still_fits(gpu, functions[gpu.address], modes_of))
    return found


def unused(inventory: Inventory) -> dict[str, Free]:
    """The memory of each GPU without a vGPU, and what fits, by address, where it is known."""
    functions = inventory.by_gpu()
    found: dict[str, Free] = {}
    for gpu in inventory.functions:
        if gpu.address in functions and gpu.address in inventory.modes:
            there = functions[gpu.address]
            fits = still_fits(gpu, there, inventory.modes[gpu.address])
            carried = [one.configured.type_name for one in there if one.configured]
            whole = card_of(gpu.device, {*fits, *carried} - {""}).region * MIB_PER_GIB
            if whole and fits:
                mib = max(0, whole - sum(map(framebuffer_mib, carried)))
                found[str(gpu.address)] = Free(mib, fits)
    return found


def gpu_instances(inventory: Inventory) -> dict[str, int]:
    """How many GPU instances of each profile exist."""
    every = (one for modes_of in inventory.modes.values() for one in modes_of.instances)
    return Counter(one.profile for one in every)
