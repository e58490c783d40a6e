"""What a node's GPUs, virtual functions and vGPUs are doing, counted by state.

Every state is counted, also with nothing in it: a number that goes away cannot be told from one
that is not collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from laneway.core.inventory import Inventory
from laneway.core.pci import PciFunction
from laneway.core.usability import VFIO_DRIVER

GpuState = Literal["enabled", "disabled", "passthrough", "undriven"]
"""Has virtual functions; has none; is a virtual machine's as a whole; no driver serves it."""
VfKind = Literal["gpu", "network", "other"]
VfState = Literal["vgpu", "passthrough", "host", "free"]
"""Carries a vGPU; is on vfio-pci; is the node's own; nobody's."""


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
    if vf.is_gpu:
        return "gpu"
    return "network" if vf.class_code.startswith("02") else "other"


def _vf_state(vf: PciFunction) -> VfState:
    if vf.driver == VFIO_DRIVER:
        return "passthrough"
    # A GPU's VFs stay on the driver that makes vGPUs on them.
    return "free" if vf.is_gpu or not vf.driver else "host"


def vgpus(inventory: Inventory, before: Iterable[str] = ()) -> dict[str, int]:
    """How many vGPUs of each profile exist, also of profiles that there were `before`."""
    found = Counter(one.configured.type_name for one in inventory.vgpus if one.configured)
    return {profile: found[profile] for profile in sorted({*before, *found})}
