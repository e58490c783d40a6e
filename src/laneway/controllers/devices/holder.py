"""Who holds a device, in words: by the allocation that its object shows."""

from __future__ import annotations

from laneway.api import Allocation
from laneway.core.workload import Workload


def holder(allocation: Allocation | None) -> str:
    """`VM default/web`, `pod default/cuda`; empty where nothing holds the device."""
    if allocation is None:
        return ""
    vm = allocation.virtual_machine
    return str(Workload(allocation.namespace, "" if vm else allocation.pod, vm))
