"""Between which GPUs a running VM with a vGPU can be migrated, by the GPUs' objects."""

from __future__ import annotations

from laneway.core.fleet.migration import Group, branch, ecc_of
from laneway.views.gpus import Gpu


def group(gpu: Gpu) -> Group:
    """The group of a GPU; VMs can be moved between those of one group, as far as GPUs decide it."""
    pci, status = gpu.pci.status if gpu.pci is not None else None, gpu.device.status
    return Group(
        device=pci.device_id if pci is not None else "",
        subsystem=pci.subsystem_device_id if pci is not None else "",
        ecc=ecc_of(status.ecc_mode),
        branch=branch(status.driver_version),
    )


def words(gpu: Gpu) -> str:
    """`26b9-16a1-ecc-580`, or what is not known."""
    found = group(gpu)
    return found.label or f"unknown: {', '.join(found.unknown)}"
