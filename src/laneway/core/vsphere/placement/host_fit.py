"""Where on one host a machine's devices can be: all of them, or none.

Whole devices are paired with items one to one. Items without a label get devices without as far as
there are any, so that those who need a label find it.
vGPUs are tried on every GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.core.vsphere.inventory.hosts import Device, Host, SharedGpu
from laneway.core.vsphere.placement.free import FreeDevices, Unit, free_on_host, serves, units_of
from laneway.core.vsphere.placement.packing import Place, pack
from laneway.core.vsphere.placement.pairing import assign
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.placement.vgpu_fit import Load, Size, capacity_of, vgpu_size
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    PassthroughRequest,
    Requested,
    VgpuRequest,
)

_VGPUS = 512
"""More at once are not tried."""


class HostFit(NamedTuple):
    """How a host can serve a machine."""

    allocations: tuple[DeviceAllocation, ...]
    cost: tuple[int, int, int]
    """The less the better: labelled devices that go to items without a label, GPUs that carry
    nothing and then would, and what would be left over."""


def fit_on_host(
    host: Host, requested: Requested, reservations: Sequence[Reservation]
) -> HostFit | None:
    """Seats for all that a machine requests; None: there is not room for all of it."""
    units: list[Unit] = []
    items: list[tuple[DeviceRequest, int]] = []
    for request in requested.devices:
        found = units_of(host, request)
        if found is None:
            return None
        units += found
        items.append((request, len(found)))
    devices = {at: one for at, one in enumerate(units) if isinstance(one, PassthroughRequest)}
    vgpus = {at: one for at, one in enumerate(units) if isinstance(one, VgpuRequest)}
    if len(devices) > len(host.devices) or len(vgpus) > _VGPUS:
        return None
    free = free_on_host(host, reservations, devices=bool(devices), vgpus=bool(vgpus))
    places: dict[int, str] = {}
    borrowed = opened = left = 0
    if devices:
        chosen = _devices(free, devices)
        if chosen is None:
            return None
        places.update({at: one.id for at, one in chosen.items()})
        borrowed = sum(one.label != devices[at].label for at, one in chosen.items())
        left = len(free.devices) - len(chosen)
    if vgpus:
        packed = _vgpus(free, vgpus)
        if packed is None:
            return None
        places.update({at: gpu.id for at, gpu in packed.shared_gpus.items()})
        opened, left = packed.opened, left + packed.left
    allocations = []
    at = 0
    for request, count in items:
        allocations.append(
            DeviceAllocation(request, tuple(places[index] for index in range(at, at + count)))
        )
        at += count
    return HostFit(tuple(allocations), (borrowed, opened, left))


def _devices(
    free: FreeDevices, requested: Mapping[int, PassthroughRequest]
) -> dict[int, Device] | None:
    """A device for each item, and still one for everybody who waits for one."""
    # Who waits comes before who asks now, and has numbers below.
    request = {at - len(free.waiting): one for at, one in enumerate(free.waiting)}
    request |= requested
    wide: dict[int, Sequence[int]] = {}
    narrow: dict[int, Sequence[int]] = {}
    seen: dict[PassthroughRequest, tuple[list[int], list[int]]] = {}
    for index, one in request.items():
        if one not in seen:
            fit = [at for at, device in enumerate(free.devices) if serves(device, one)]
            seen[one] = fit, [at for at in fit if free.devices[at].label == one.label]
        wide[index], narrow[index] = seen[one]
    before = assign({index: things for index, things in wide.items() if index < 0})
    # A machine that cannot have this device does not keep others from it.
    wide = {index: things for index, things in wide.items() if index in before or index >= 0}
    asking = {index: things if index < 0 else narrow[index] for index, things in wide.items()}
    found = assign(wide, assign(asking, before))
    if len(found) < len(before) + len(requested):
        return None
    return {index: free.devices[at] for index, at in found.items() if index >= 0}


class _Shared(NamedTuple):
    """vGPUs on GPUs."""

    shared_gpus: Mapping[int, SharedGpu]
    opened: int
    """Boards that carried nothing before."""
    left: int
    """MiB, on the GPUs that were used."""


def _vgpus(free: FreeDevices, requested: Mapping[int, VgpuRequest]) -> _Shared | None:
    """A GPU for each vGPU."""
    by_profile: dict[str, list[int]] = {}
    for index, one in requested.items():
        by_profile.setdefault(one.profile, []).append(index)
    shared_gpus: list[SharedGpu] = []
    loads: list[Load] = []
    sizes: list[dict[str, Size]] = []
    for gpu, load in zip(free.shared_gpus, free.loads, strict=True):
        known = {name: size for name in by_profile if (size := vgpu_size(gpu, name)) is not None}
        if known:
            shared_gpus.append(gpu)
            loads.append(load)
            sizes.append(known)
    largest: dict[str, int] = {}
    for known in sizes:
        for name, size in known.items():
            largest[name] = max(size.mib, largest.get(name, 0))
    if len(largest) < len(by_profile):
        return None
    names = sorted(largest, key=lambda name: (-largest[name], name))
    places = tuple(
        Place(capacity_of(gpu), gpu.mode, tuple(map(known.get, names)))
        for gpu, known in zip(shared_gpus, sizes, strict=True)
    )
    packed = pack(places, tuple(loads), tuple(len(by_profile[name]) for name in names))
    if packed is None:
        return None
    line = [index for name in names for index in by_profile[name]]
    used = set(packed.shared_gpus)
    return _Shared(
        {index: shared_gpus[at] for index, at in zip(line, packed.shared_gpus, strict=True)},
        sum(not loads[at].vgpus for at in used),
        sum(places[at].limit.mib - packed.loads[at].mib for at in used),
    )
