"""What a VM that is on has of its host, as vCenter tells it."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import Attached, DynamicBacking, VgpuBacking, VmState
from laneway.core.vsphere.placement.reservation import DeviceAllocation
from laneway.core.vsphere.provisioning.matching import match, parts_of
from laneway.core.vsphere.spec.requests import Requested


def held(
    requested: Requested, state: VmState, host: Host | None
) -> tuple[DeviceAllocation, ...] | None:
    """What a machine that is on has, item by item; None: not all of what it requests."""
    parts = parts_of(requested, [host] if host is not None else ())
    found = match(requested, state.devices, parts)
    if found.missing or not requested.devices:
        return None
    return tuple(
        DeviceAllocation(request, _places(attached, state.ref, host))
        for request, attached in zip(requested.devices, found.allocations, strict=True)
        if attached is not None
    )


def _places(attached: Attached, vm: str, host: Host | None) -> tuple[str, ...]:
    match attached.backing:
        case DynamicBacking(assigned=str(assigned)) if assigned:
            return (assigned,)
        case VgpuBacking(profile) if host is not None:
            users = ((gpu.id, user) for gpu in host.shared_gpus for user in gpu.users)
            return tuple(at for at, user in users if (user.vm, user.profile) == (vm, profile))[:1]
        case _:
            return ()


def is_on(vm: str, hosts: Iterable[Host]) -> bool:
    """Whether a host reports a VM as powered on with devices."""
    return bool(vm) and any(
        any(device.holder == vm for device in host.devices)
        or any(user.vm == vm for gpu in host.shared_gpus for user in gpu.users)
        for host in hosts
    )
