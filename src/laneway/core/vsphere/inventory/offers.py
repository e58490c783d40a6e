"""What can be requested on some hosts, as requests."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.vgpu_fit import vgpu_size
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    VgpuRequest,
)


def offered_by(hosts: Iterable[Host]) -> dict[DeviceRequest, str]:
    """Devices, then vGPUs, then groups, each with the name of what it is, used up or not."""
    devices: dict[tuple[int, int, str], str] = {}
    vgpus: dict[str, str] = {}
    groups: dict[str, str] = {}
    for host in hosts:
        for device in host.devices:
            if device.active:
                devices.setdefault((*device.ids[:2], device.label), device.name)
        for gpu in host.shared_gpus:
            for profile in gpu.profiles:
                if profile.name not in vgpus and vgpu_size(gpu, profile.name) is not None:
                    vgpus[profile.name] = gpu.name
        for group in host.device_groups:
            groups.setdefault(group.name, group.description)
    found: dict[DeviceRequest, str] = {
        PassthroughRequest((PciIds(vendor, device),), label): name
        for (vendor, device, label), name in sorted(devices.items())
    }
    found.update((VgpuRequest(profile), name) for profile, name in sorted(vgpus.items()))
    found.update((GroupRequest(group), name) for group, name in sorted(groups.items()))
    return found


def shown(request: DeviceRequest) -> str:
    """A request in a few words: `grid_t4-16q`, `10de:1eb8 labelled gold`."""
    if isinstance(request, VgpuRequest):
        return request.profile
    if isinstance(request, GroupRequest):
        return f"device group {request.name}"
    ids = " or ".join(ids_shown(one) for one in request.allowed) or "any device"
    return f"{ids} labelled {request.label}" if request.label else ids


def ids_shown(ids: PciIds) -> str:
    """`10de:1eb8`, with the subsystem and the revision where they are requested."""
    text = f"{ids.vendor:04x}:{ids.device:04x}"
    if ids.sub_vendor is not None or ids.sub_device is not None:
        text += f" subsystem {_hex(ids.sub_vendor)}:{_hex(ids.sub_device)}"
    return text if ids.revision is None else f"{text} revision {ids.revision:02x}"


def _hex(number: int | None) -> str:
    return "any" if number is None else f"{number:04x}"
