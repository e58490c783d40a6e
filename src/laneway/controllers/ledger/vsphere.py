"""Objects of vSphere's inventory and reservations as facts of the core, and back.

Placement, admission and metrics read the same objects by the same rules. What stands in an object
may come from any client: an odd text is read as something that nothing fits, never as an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from laneway.api.meta import ObjectMeta
from laneway.api.vsphere import (
    AllocatedItem,
    HostBoard,
    HostBoardUser,
    HostDevice,
    HostDeviceGroup,
    HostGroupPart,
    HostProfile,
    VCenter,
    VSphereHost,
    VSphereHostSpec,
    VSphereHostStatus,
    VSphereReservation,
    VSphereReservationSpec,
)
from laneway.core import names
from laneway.core.vsphere.inventory.hosts import (
    Device,
    DeviceGroup,
    GroupPart,
    Host,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    VgpuRequest,
)

VGPU = "vGPU"
DEVICE = "Device"
GROUP = "Group"
"""Types of what is requested, as a reservation names them."""

_HTTPS = "443"
_SERVER = re.compile(
    r"(?:https://)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]+))?(?:/.*)?"
)
_ANY = "*"
_OR = ", "


def server_of(text: str) -> str:
    """One form for every spelling of the same server: `vcenter.example.com`, `10.0.0.1:8443`."""
    text = text.strip().lower()
    found = _SERVER.fullmatch(text)
    if found is None:
        return text
    host, port = found["host"], found["port"]
    return host if port in (None, _HTTPS) else f"{host}:{port}"


def vcenter_of(server: str, vcenters: Iterable[VCenter]) -> str:
    """The name of a server's VCenter; of several with this server, the first one's."""
    requested = server_of(server)
    named = [one.metadata.name for one in vcenters if server_of(one.spec.server) == requested]
    return min(named, default=names.vcenter_object_name(requested))


def host_of(host: VSphereHost) -> Host:
    """A host as its object tells it."""
    status = host.status
    return Host(
        ref=host.spec.ref,
        name=status.host,
        datacenter=status.datacenter,
        cluster=status.cluster,
        cluster_ref=status.cluster_ref,
        drs=status.drs,
        groups_of=tuple(status.host_groups),
        connected=status.connected,
        maintenance=status.maintenance,
        shared_direct=status.shared_direct,
        devices=tuple(map(_device_of, status.devices)),
        shared_gpus=tuple(map(_gpu_of, status.boards)),
        device_groups=tuple(map(_group_of, status.device_groups)),
    )


def _device_of(device: HostDevice) -> Device:
    return Device(
        id=device.id,
        ids=PciIds(
            device.vendor_id,
            device.device_id,
            device.sub_vendor_id or None,
            device.sub_device_id or None,
        ),
        name=device.name,
        label=device.label,
        display=device.display,
        active=device.active,
        holder=device.vm,
    )


def _gpu_of(board: HostBoard) -> SharedGpu:
    return SharedGpu(
        id=board.id,
        name=board.name,
        memory_gib=board.memory_gib,
        mode=board.mode,
        profiles=tuple(
            Profile(one.name, one.memory_gib, one.mig, one.compute, one.migrates)
            for one in board.profiles
        ),
        users=tuple(VgpuUser(one.vm, one.profile) for one in board.users),
    )


def _group_of(group: HostDeviceGroup) -> DeviceGroup:
    return DeviceGroup(group.name, group.description, tuple(map(_part_of, group.parts)))


def _part_of(part: HostGroupPart) -> GroupPart:
    ids = PciIds(part.vendor_id, part.device_id) if part.vendor_id or part.device_id else None
    return GroupPart(part.type, part.name, ids, part.profile, part.label)


def host_object(vcenter: str, host: Host) -> VSphereHost:
    """The VSphereHost of a host."""
    return VSphereHost(
        metadata=ObjectMeta(name=names.vsphere_host_object_name(vcenter, host.ref)),
        spec=VSphereHostSpec(vcenter=vcenter, ref=host.ref),
        status=status_of(host),
    )


def status_of(host: Host) -> VSphereHostStatus:
    """What the object of a host says."""
    return VSphereHostStatus(
        host=host.name,
        datacenter=host.datacenter,
        cluster=host.cluster,
        cluster_ref=host.cluster_ref,
        drs=host.drs,
        host_groups=list(host.groups_of),
        connected=host.connected,
        maintenance=host.maintenance,
        shared_direct=host.shared_direct,
        devices=[_device_object(one) for one in host.devices],
        boards=[_gpu_object(one) for one in host.shared_gpus],
        device_groups=[_group_object(one) for one in host.device_groups],
    )


def _device_object(device: Device) -> HostDevice:
    return HostDevice(
        id=device.id,
        vendor_id=device.ids.vendor,
        device_id=device.ids.device,
        sub_vendor_id=device.ids.sub_vendor or 0,
        sub_device_id=device.ids.sub_device or 0,
        name=device.name,
        label=device.label,
        display=device.display,
        active=device.active,
        vm=device.holder,
    )


def _gpu_object(gpu: SharedGpu) -> HostBoard:
    return HostBoard(
        id=gpu.id,
        name=gpu.name,
        memory_gib=gpu.memory_gib,
        mode=gpu.mode,
        profiles=[
            HostProfile(
                name=profile.name,
                memory_gib=profile.memory_gib,
                mig=profile.mig,
                compute=profile.compute,
                migrates=profile.migrates,
            )
            for profile in gpu.profiles
        ],
        users=[HostBoardUser(vm=user.vm, profile=user.profile) for user in gpu.users],
    )


def _group_object(group: DeviceGroup) -> HostDeviceGroup:
    return HostDeviceGroup(
        name=group.name,
        description=group.description,
        parts=[
            HostGroupPart(
                type=part.kind,
                name=part.name,
                vendor_id=part.ids.vendor if part.ids else 0,
                device_id=part.ids.device if part.ids else 0,
                profile=part.profile,
                label=part.label,
            )
            for part in group.parts
        ],
    )


def reservation_of(obj: VSphereReservation) -> Reservation:
    """What a reservation keeps for its machine; of a refused one nothing, on no host."""
    meta, spec = obj.metadata, obj.spec
    return Reservation(
        machine=machine_name(meta),
        host=spec.host,
        allocations=tuple(
            DeviceAllocation(request_of(one), tuple(one.devices)) for one in spec.seats
        ),
        vm=obj.status.vm,
    )


def machine_name(meta: ObjectMeta) -> str:
    """What reservations call a VSphereVM."""
    return f"{meta.namespace}/{meta.name}"


def spec_of(
    vcenter: str, server: str, reservation: Reservation, hosts: Mapping[str, str]
) -> VSphereReservationSpec:
    """The spec of a VSphereReservation; `hosts` are the names of hosts by their refs."""
    return VSphereReservationSpec(
        vcenter=vcenter,
        server=server_of(server),
        host=reservation.host,
        host_name=hosts.get(reservation.host, ""),
        seats=[allocated_item(one.request, one.devices) for one in reservation.allocations],
    )


def allocated_item(request: DeviceRequest, devices: Sequence[str] = ()) -> AllocatedItem:
    """What a reservation says of one item of the machine's list."""
    label = request.label if isinstance(request, PassthroughRequest) else ""
    return AllocatedItem(
        type=type_of(request), asked=request_text(request), label=label, devices=list(devices)
    )


def type_of(request: DeviceRequest) -> str:
    """Of which type it is."""
    match request:
        case VgpuRequest():
            return VGPU
        case GroupRequest():
            return GROUP
        case PassthroughRequest():
            return DEVICE


def request_text(request: DeviceRequest) -> str:
    """`grid_t4-16q`, `10de:1eb8`, or the name of a group; devices with further ids show them."""
    match request:
        case VgpuRequest(profile):
            return profile
        case GroupRequest(name):
            return name
        case PassthroughRequest(allowed):
            return _OR.join(map(_ids_text, allowed))


def _ids_text(ids: PciIds) -> str:
    further = [ids.sub_vendor, ids.sub_device, ids.revision]
    while further and further[-1] is None:
        further.pop()
    shown = [_ANY if one is None else f"{one:04x}" for one in further]
    return ":".join([f"{ids.vendor:04x}", f"{ids.device:04x}", *shown])


def request_of(seat: AllocatedItem) -> DeviceRequest:
    """The request that a seat serves."""
    if seat.type == DEVICE:
        ids = (_ids_of(one) for one in seat.asked.split(_OR))
        return PassthroughRequest(tuple(one for one in ids if one is not None), seat.label)
    return GroupRequest(seat.asked) if seat.type == GROUP else VgpuRequest(seat.asked)


def _ids_of(text: str) -> PciIds | None:
    try:
        numbers = [None if one == _ANY else int(one, 16) for one in text.split(":")]
    except ValueError:
        return None
    match numbers:
        case [int() as vendor, int() as device, *further] if len(further) <= len(PciIds._fields):
            sub_vendor, sub_device, revision = (*further, None, None, None)[:3]
            return PciIds(vendor, device, sub_vendor, sub_device, revision)
        case _:
            return None
