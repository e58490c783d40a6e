"""How a GPU gets from one mode to another: the steps, in the one order there is.

`sriov-manage` gives the GPU a new driver binding, in both directions, which clears mixed sizes and
destroys every GPU instance without a word; MIG mode changes only while there are no virtual
functions; mixed sizes are allowed only once there are. So first goes what would be lost, in steps
of its own that can be taken back, then the functions, then MIG mode changes, then functions come.
"""

from __future__ import annotations

from laneway.core.decision import refusals_of, steps_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.mig.instances import dismantle
from laneway.core.passthrough.fitness import unfit
from laneway.core.pci import PciFunction
from laneway.core.plan import SetMigMode, SetMixedSize, Step, SwitchGpuVfs
from laneway.core.refusals import DriverMissing, GpuUnreadable, Refusal
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import NVIDIA_DRIVER, VGPU_DRIVER, busy, switch_gpu, vf_count


def transition(
    gpu: PciFunction, modes: GpuModes, situation: Situation, *, functions: bool, mig: bool
) -> tuple[list[Refusal], list[Step]]:
    """What speaks against it, and the steps, to have its functions or none, and MIG mode on or off.

    `modes`: as they are. `situation`: in which that is gone already which may go. Mixed sizes are
    forbidden afterwards where anything is to be done.
    """
    on, change = bool(vf_count(gpu)), bool(modes.mig) != mig
    if on == functions and not change:
        return [], []
    against: list[Refusal] = []
    steps = dismantle(gpu.address, modes.instances)
    if modes.mixed_size:
        steps.append(SetMixedSize(gpu.address, enabled=False))
    if on or functions:
        switched = switch_gpu(gpu.address, not on, situation)
        against += refusals_of(switched)
        steps += steps_of(switched) if on or not change else ()
    else:
        against += [*unfit(gpu.address, situation), *busy(gpu, situation)]
    if change:
        steps.append(SetMigMode(gpu.address, mig))
        if functions:
            steps.append(SwitchGpuVfs(gpu.address, enabled=True, count=gpu.total_vfs or 0))
    return against, steps


def unserved(gpu: PciFunction, situation: Situation) -> list[Refusal]:
    """Why the driver cannot configure this card now."""
    device = str(gpu.address)
    if gpu.driver != NVIDIA_DRIVER:
        return [DriverMissing(device, gpu.driver, VGPU_DRIVER)]
    if gpu.address not in situation.gpus:
        error = situation.unasked.get(gpu.address, "it was not read")
        return [GpuUnreadable(device, error)]
    return []
