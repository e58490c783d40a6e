"""How many GPUs a machine will show to its cluster, as the cluster autoscaler counts them.

Each vGPU is one, and so is each whole device that is NVIDIA's and, as far as any host tells, a
GPU: NVIDIA makes bridges and network cards, too. What is in a vendor device group only the hosts
know that offer it. A number that is not certain is not reported, as machines would be made for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.vsphere.inventory.hosts import DeviceGroup, Host
from laneway.core.vsphere.provisioning.matching import allows
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

RESOURCE = "nvidia.com/gpu"
"""What NVIDIA's device plugin calls them, vGPUs and whole ones alike."""
_NVIDIA = 0x10DE


def gpus_of(requested: Requested, hosts: Sequence[Host]) -> int | None:
    """The number for a machine that requests this; None: it is not known."""
    counts = [_of(request, hosts) for request in requested.devices]
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def _of(request: DeviceRequest, hosts: Sequence[Host]) -> int | None:
    match request:
        case VgpuRequest():
            return 1
        case PassthroughRequest(allowed):
            kinds = {_is_gpu(ids, hosts) for ids in allowed}
            return int(kinds.pop()) if len(kinds) == 1 else None
    vgpu_size = (group for host in hosts for group in host.device_groups)
    return next((_in_group(one, hosts) for one in vgpu_size if one.name == request.name), None)


def _in_group(group: DeviceGroup, hosts: Sequence[Host]) -> int:
    return sum(
        bool(part.profile) or (part.ids is not None and _is_gpu(part.ids, hosts))
        for part in group.parts
    )


def _is_gpu(ids: PciIds, hosts: Sequence[Host]) -> bool:
    if ids.vendor != _NVIDIA:
        return False
    kinds = {one.display for host in hosts for one in host.devices if allows((ids,), one.ids)}
    return kinds != {False}
