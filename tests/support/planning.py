"""Fleets for the planner: L40S GPUs that are half used, so nothing large fits without a move."""

from __future__ import annotations

import msgspec

from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm
from laneway.core.ledger.facts import Phase

Q24, Q48 = "nvidia.com/NVIDIA_L40S-24Q", "nvidia.com/NVIDIA_L40S-48Q"


def running(fleet: Fleet) -> Fleet:
    """The same with VMs that run, and cannot be migrated."""
    vms = (msgspec.structs.replace(vm, phase=Phase.RUNNING, migratable=False) for vm in fleet.vms)
    return msgspec.structs.replace(fleet, vms=tuple(vms))


def half_used(count: int, *vms: Vm) -> Fleet:
    """So many nodes with a GPU, of which a stopped VM keeps half: `d/0` the first, and so on."""
    fleet = made_up(f"{count}x l40s*1")
    gpus = tuple(
        msgspec.structs.replace(
            gpu,
            mode="SameSize",
            vgpus=(Vgpu(name=f"{gpu.name}-v", profile="NVIDIA L40S-24Q", holder=f"d/{n}"),),
        )
        for n, gpu in enumerate(fleet.gpus)
    )
    stopped = (Vm(name=f"d/{n}", phase=Phase.STOPPED, requests={Q24: 1}) for n in range(count))
    return msgspec.structs.replace(fleet, gpus=gpus, vms=(*stopped, *vms))
