"""The operation behind every kind of step."""

from __future__ import annotations

from laneway.core.plan import Step
from laneway.host.plans.operations import boot, console, mig, modules, pci, sriov, usb, vgpu
from laneway.host.plans.operations.operation import Operation

_OPERATIONS: dict[type, Operation] = {
    **boot.OPERATIONS,
    **console.OPERATIONS,
    **mig.OPERATIONS,
    **modules.OPERATIONS,
    **pci.OPERATIONS,
    **sriov.OPERATIONS,
    **usb.OPERATIONS,
    **vgpu.OPERATIONS,
}


def operation_of(step: Step) -> Operation:
    return _OPERATIONS[type(step)]
