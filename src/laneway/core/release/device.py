"""What it means to give a device back to its node, whatever it is and however VMs came to it.

A function on vfio-pci goes back to the node's drivers, with all of its IOMMU group. A function with
a vGPU loses that. A card with VFs loses these, and before them, in the one order that the driver
allows, whatever lives on them: vGPUs, then GPU instances, then the mode for mixed sizes (switching
VFs would silently clear both; as steps of their own they come back when a later step fails). MIG
mode stays: it is the card's setting, and outlives VFs and reboots. A USB device's node goes back to
its owner. Anything that VMs cannot have is left alone: nothing is to be released.
"""

from __future__ import annotations

from laneway.core.claims import usb_access
from laneway.core.claims.usb_access import usb_device
from laneway.core.decision import Decision, conclude, refusals_of, steps_of
from laneway.core.gpu.transition import transition
from laneway.core.layout.view import DesiredGpu, removals, view_of
from laneway.core.passthrough import binding
from laneway.core.passthrough.fitness import find, unfit
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.refusals import DeviceNotFound, GpuUnreadable
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import emptied, held, obstacles, set_vfs, vf_count


def release(device: PciAddress | str, situation: Situation) -> Decision:
    """Release a PCI function, or the USB device at a port (`3-1.2`)."""
    if isinstance(device, str):
        if usb_device(device, situation) is None:
            return (DeviceNotFound(device),)
        return usb_access.release(device, situation)
    function = find(device, situation)
    against = unfit(device, situation)
    if function is None or against:
        return against
    vgpu = situation.inventory.vgpu(device)
    if vgpu is not None and vgpu.unreadable:
        return (GpuUnreadable(str(device), vgpu.unreadable),)
    if vf_count(function) and function.driver != VFIO_DRIVER:
        return _gpu(function, situation) if function.sriov_gpu else set_vfs(device, 0, situation)
    vgpus = [vgpu for vgpu in situation.inventory.vgpus if vgpu.address == device]
    if steps := removals(vgpus):
        return conclude(held(device, situation), steps)
    # Group members may be on vfio-pci though it is not itself; and a card that leaves its driver
    # loses the VFs that the driver made.
    decision = binding.release(device, situation)
    return conclude((*obstacles(function, situation), *refusals_of(decision)), steps_of(decision))


def _gpu(gpu: PciFunction, situation: Situation) -> Decision:
    view = view_of(DesiredGpu(gpu.address, ()), gpu, situation)
    empty = emptied(gpu.address, situation)
    mig = bool(view.modes.mig)
    against, steps = transition(gpu, view.modes, empty, functions=False, mig=mig)
    return conclude(against, (*removals(view.functions), *steps))
