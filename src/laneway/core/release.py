"""What it means to give a device back to its node, whatever it is and however VMs came to it.

A function on vfio-pci goes back to the node's drivers, with all of its IOMMU group. A function with
a vGPU loses that. A card with VFs loses these, and before them, in the one order that the driver
allows, whatever lives on them: vGPUs, then GPU instances, then the mode for mixed sizes (switching
VFs would silently clear both; as steps of their own they come back when a later step fails). MIG
mode stays: it is the card's setting, and outlives VFs and reboots. A USB device's node goes back to
its owner. Anything that VMs cannot have is left alone: nothing is to be given back.
"""

from __future__ import annotations

import msgspec

from laneway.core import passthrough
from laneway.core.decision import Decision, conclude
from laneway.core.fitness import find, unfit
from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    DestroyComputeInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
    SetMixedSize,
    Step,
)
from laneway.core.refusals import DeviceMissing, Refusal
from laneway.core.situation import Situation
from laneway.core.sriov import held, obstacles, set_vfs, switch_gpu, vf_count
from laneway.core.usability import VFIO_DRIVER
from laneway.core.usb_claims import give_back, usb_device
from laneway.core.vgpu import VgpuWish, decide


def release(device: PciAddress | str, situation: Situation) -> Decision:
    """Give back a PCI function, or the USB device at a port (`3-1.2`)."""
    if isinstance(device, str):
        if usb_device(device, situation) is None:
            return (DeviceMissing(device),)
        return give_back(device, situation)
    function = find(device, situation)
    against = unfit(device, situation)
    if function is None or against:
        return against
    if vf_count(function) and function.driver != VFIO_DRIVER:
        return _gpu(function, situation) if function.sriov_gpu else set_vfs(device, 0, situation)
    vgpus = [vgpu for vgpu in situation.inventory.vgpus if vgpu.address == device]
    if steps := _removals(vgpus, situation):
        return conclude(held(device, situation), steps)
    # Group mates may be on vfio-pci though it is not itself; and a card that leaves its driver
    # loses the VFs that the driver made.
    decision = passthrough.release(device, situation)
    return conclude((*obstacles(function, situation), *_refusals(decision)), _steps(decision))


def _gpu(gpu: PciFunction, situation: Situation) -> Decision:
    inventory, modes = situation.inventory, situation.gpus.get(gpu.address)
    steps = _removals([vgpu for vgpu in inventory.vgpus if vgpu.parent == gpu.address], situation)
    emptied = msgspec.structs.replace(
        inventory,
        vgpus=tuple(
            msgspec.structs.replace(vgpu, configured=None) if vgpu.parent == gpu.address else vgpu
            for vgpu in inventory.vgpus
        ),
    )
    gpus = dict(situation.gpus)
    if modes is not None:
        for instance in modes.instances:
            if instance.compute_instances:
                steps.append(DestroyComputeInstance(gpu.address, instance.start))
            steps.append(
                DestroyGpuInstance(
                    gpu.address, instance.profile, instance.profile_id, instance.start
                )
            )
        if modes.mixed_size:
            steps.append(SetMixedSize(gpu.address, enabled=False))
        gpus[gpu.address] = msgspec.structs.replace(modes, instances=())
    cleared = msgspec.structs.replace(situation, inventory=emptied, gpus=gpus)
    decision = switch_gpu(gpu.address, enabled=False, situation=cleared)
    return conclude(_refusals(decision), (*steps, *_steps(decision)))


def _removals(vgpus: list[VgpuFunction], situation: Situation) -> list[Step]:
    steps: list[Step] = []
    for vgpu in vgpus:
        wish = VgpuWish(vgpu.address, enabled=False, profile="", explicit=True)
        decision = decide(wish, situation.node, vgpu, vgpus)
        if isinstance(decision, Plan):
            steps += decision.steps
    return steps


def _refusals(decision: Decision) -> tuple[Refusal, ...]:
    return () if isinstance(decision, Satisfied | Plan) else decision


def _steps(decision: Decision) -> tuple[Step, ...]:
    return decision.steps if isinstance(decision, Plan) else ()
