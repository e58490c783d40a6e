"""Laneway's kinds for vSphere: a vCenter, the GPUs of its hosts, and reservations of devices.

Webhooks, the command line and people read these objects without credentials of a vCenter; a
reservation is an object, so that it outlives the manager that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from laneway.api.fields import API_VERSION, FIXED
from laneway.api.meta import ObjectMeta, Status

DEVICE_RESERVED: Final = "Reserved"
DEVICE_ATTACHED: Final = "Attached"
DEVICE_IN_USE: Final = "InUse"
DEVICE_MISSING: Final = "Missing"
DEVICE_REFUSED: Final = "Refused"
DeviceState = Literal["", "Reserved", "Attached", "InUse", "Missing", "Refused"]


# Empty is what a Go client writes for "not set".
_SERVER = r"^[0-9A-Za-z._:\[\]-]*$"
_THUMBPRINT = r"^$|^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){19}$|^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$"


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A part of an object."""


class VCenterSecretRef(_Part, frozen=True, kw_only=True):
    """The Secret with `username` and `password`."""

    namespace: Annotated[str, Meta(description="Namespace of the Secret.")] = ""
    name: Annotated[str, Meta(description="Name of the Secret.")] = ""


class VCenterSpec(_Part, frozen=True, kw_only=True):
    """How Laneway reaches a vCenter."""

    server: Annotated[
        str,
        Meta(
            description="Host name or address, with :port where it is not 443.",
            extra_json_schema={"pattern": _SERVER},
        ),
    ] = ""
    secret_ref: Annotated[
        VCenterSecretRef, Meta(description="Secret with the keys username and password.")
    ] = VCenterSecretRef()
    thumbprint: Annotated[
        str,
        Meta(
            description="SHA-1 or SHA-256 fingerprint of the server's certificate, hexadecimal.",
            extra_json_schema={"pattern": _THUMBPRINT},
        ),
    ] = ""
    ca_bundle: Annotated[str, Meta(description="Certificate authorities to trust for it, PEM.")] = (
        ""
    )


class VCenterStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """State of a vCenter. Conditions: Ready (Laneway is logged in and follows the inventory)."""

    version: Annotated[str, Meta(description="Release of the vCenter, with its build.")] = ""
    hosts: Annotated[int, Meta(description="Hosts that have GPUs or other such devices.")] = 0
    gpus: Annotated[int, Meta(description="GPUs of these hosts.")] = 0


class VCenter(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A vCenter whose GPUs Laneway manages."""

    api_version: str = API_VERSION
    kind: str = "VCenter"
    metadata: ObjectMeta = ObjectMeta()
    spec: VCenterSpec = VCenterSpec()
    status: VCenterStatus = VCenterStatus()


class HostDevice(_Part, frozen=True, kw_only=True):
    """A PCI device for passthrough to a VM."""

    id: Annotated[str, Meta(description="PCI address on the host.")] = ""
    vendor_id: Annotated[int, Meta(description="PCI vendor id, as a decimal number.")] = 0
    device_id: Annotated[int, Meta(description="PCI device id, as a decimal number.")] = 0
    sub_vendor_id: Annotated[int, Meta(description="Subsystem vendor id, as a decimal number.")] = 0
    sub_device_id: Annotated[int, Meta(description="Subsystem device id, as a decimal number.")] = 0
    name: Annotated[str, Meta(description="Name in vCenter.")] = ""
    label: Annotated[str, Meta(description="Hardware label, which tells equal devices apart.")] = ""
    display: Annotated[bool, Meta(description="Whether it is a display or 3D controller.")] = False
    active: Annotated[bool, Meta(description="Whether passthrough is active on it.")] = False
    vm: Annotated[str, Meta(description="Managed object of the VM that uses it.")] = ""


class HostProfile(_Part, frozen=True, kw_only=True):
    """A vGPU profile that a GPU supports."""

    name: Annotated[str, Meta(description="Name of the profile, grid_t4-8q.")] = ""
    memory_gib: Annotated[int, Meta(description="GPU memory of one such vGPU.")] = field(
        default=0, name="memoryGiB"
    )
    mig: Annotated[
        bool, Meta(description="Whether it is backed by a MIG instance, not time-sliced.")
    ] = False
    compute: Annotated[bool, Meta(description="Whether it is for compute, not graphics.")] = False
    migrates: Annotated[
        bool, Meta(description="Whether vMotion can move a running VM with it.")
    ] = False


class HostBoardUser(_Part, frozen=True, kw_only=True):
    """A vGPU of a running VM."""

    vm: Annotated[str, Meta(description="Managed object of the VM.")] = ""
    profile: Annotated[
        str, Meta(description="Profile of its vGPU; empty where vCenter does not report it.")
    ] = ""


class HostBoard(_Part, frozen=True, kw_only=True):
    """A GPU in Shared Direct mode."""

    id: Annotated[str, Meta(description="PCI address on the host.")] = ""
    name: Annotated[str, Meta(description="Name in vCenter.")] = ""
    memory_gib: Annotated[int, Meta(description="Memory of the GPU.")] = field(
        default=0, name="memoryGiB"
    )
    mode: Annotated[
        str, Meta(description="vGPU mode: sameSize, mixedSize, multiInstanceGpu or none.")
    ] = ""
    profiles: Annotated[
        Sequence[HostProfile], Meta(description="Profiles that the GPU supports.")
    ] = []
    users: Annotated[Sequence[HostBoardUser], Meta(description="vGPUs of running VMs.")] = []


class HostGroupPart(_Part, frozen=True, kw_only=True):
    """Devices of one kind in a device group."""

    type: Annotated[
        str, Meta(description="Kind of device: pciPassthru, nvidiaVgpu, sriovNic or dvx.")
    ] = ""
    name: Annotated[str, Meta(description="Name in vCenter.")] = ""
    vendor_id: Annotated[int, Meta(description="PCI vendor id, as a decimal number.")] = 0
    device_id: Annotated[int, Meta(description="PCI device id, as a decimal number.")] = 0
    profile: Annotated[str, Meta(description="vGPU profile, where it is one.")] = ""
    label: Annotated[str, Meta(description="Hardware label, where it has one.")] = ""


class HostDeviceGroup(_Part, frozen=True, kw_only=True):
    """A vendor device group that a host offers."""

    name: Annotated[str, Meta(description="Name of the group, as deviceGroupName requests it.")] = (
        ""
    )
    description: Annotated[str, Meta(description="Description in vCenter.")] = ""
    parts: Annotated[
        Sequence[HostGroupPart], Meta(description="Devices that make up the group.")
    ] = []


class VSphereHostSpec(_Part, frozen=True, kw_only=True):
    """Which host it is."""

    vcenter: Annotated[
        str,
        Meta(
            description="Name of the VCenter object. Fixed.",
            extra_json_schema={FIXED: True},
        ),
    ] = field(default="", name="vCenter")
    ref: Annotated[
        str,
        Meta(
            description="Managed object of the host, host-21. Fixed.",
            extra_json_schema={FIXED: True},
        ),
    ] = ""


class VSphereHostStatus(_Part, frozen=True, kw_only=True):
    """GPUs and other devices of a host, as vCenter reports them."""

    host: Annotated[str, Meta(description="Name of the host.")] = ""
    datacenter: Annotated[str, Meta(description="Name of its datacenter.")] = ""
    cluster: Annotated[
        str,
        Meta(description="Name of its vSphere cluster; of a host that is in none, its own name."),
    ] = ""
    cluster_ref: Annotated[
        str, Meta(description="Managed object of its cluster or compute resource.")
    ] = ""
    drs: Annotated[bool, Meta(description="Whether DRS places VMs in its cluster.")] = False
    host_groups: Annotated[
        Sequence[str], Meta(description="Host groups of the cluster that it is in.")
    ] = []
    connected: Annotated[bool, Meta(description="Whether vCenter is connected to it.")] = False
    maintenance: Annotated[
        bool, Meta(description="Whether it is in maintenance, or entering it.")
    ] = False
    shared_direct: Annotated[
        bool, Meta(description="Whether its default graphics type is Shared Direct.")
    ] = False
    devices: Annotated[Sequence[HostDevice], Meta(description="PCI devices for passthrough.")] = []
    boards: Annotated[Sequence[HostBoard], Meta(description="GPUs in Shared Direct mode.")] = []
    device_groups: Annotated[
        Sequence[HostDeviceGroup], Meta(description="Vendor device groups that it offers.")
    ] = []


class VSphereHost(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An ESXi host with GPUs or other devices for VMs. Laneway writes it."""

    api_version: str = API_VERSION
    kind: str = "VSphereHost"
    metadata: ObjectMeta = ObjectMeta()
    spec: VSphereHostSpec = VSphereHostSpec()
    status: VSphereHostStatus = VSphereHostStatus()


class AllocatedItem(_Part, frozen=True, kw_only=True):
    """Devices that are reserved for one item of pciDevices."""

    type: Annotated[str, Meta(description="Type of the request: vGPU, Device or Group.")] = ""
    asked: Annotated[
        str, Meta(description="Profile, vendor:device in hex, or name of the device group.")
    ] = ""
    label: Annotated[str, Meta(description="Requested hardware label.")] = ""
    devices: Annotated[
        Sequence[str], Meta(description="PCI addresses of the devices or GPUs on the host.")
    ] = []


class VSphereReservationSpec(_Part, frozen=True, kw_only=True):
    """Reserved devices, in the order of pciDevices."""

    vcenter: Annotated[str, Meta(description="Name of the VCenter object of the server.")] = field(
        default="", name="vCenter"
    )
    server: Annotated[str, Meta(description="Host name or address of the vCenter.")] = ""
    host: Annotated[str, Meta(description="Managed object of the host, host-21.")] = ""
    host_name: Annotated[str, Meta(description="Name of the host.")] = ""
    seats: Annotated[
        Sequence[AllocatedItem], Meta(description="Devices reserved for each item of pciDevices.")
    ] = []


class DeviceStatus(_Part, frozen=True, kw_only=True):
    """State of one item of pciDevices: requested, attached, and on which host."""

    asked: Annotated[
        str, Meta(description="Profile, vendor:device in hex, or name of the device group.")
    ] = ""
    label: Annotated[str, Meta(description="Requested hardware label.")] = ""
    state: Annotated[
        DeviceState, Meta(description="Reserved, Attached, InUse, Missing or Refused.")
    ] = ""
    attached: Annotated[
        str,
        Meta(description="Backing of the VM's device: profile, or PCI address while it runs."),
    ] = ""
    key: Annotated[int, Meta(description="Key of the VM's device.")] = 0
    host: Annotated[str, Meta(description="Name of the host.")] = ""
    message: Annotated[str, Meta(description="Why it is not attached.")] = ""


class VSphereReservationStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """State of the reservation. Ready: all devices are attached; of a running VM, in use."""

    vm: Annotated[str, Meta(description="Managed object of the VM, vm-42.")] = ""
    devices: Annotated[
        Sequence[DeviceStatus],
        Meta(description="State of each item of pciDevices, in their order."),
    ] = []


class VSphereReservation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Devices reserved for one VSphereVM of the same name. Laneway writes it."""

    api_version: str = API_VERSION
    kind: str = "VSphereReservation"
    metadata: ObjectMeta = ObjectMeta()
    spec: VSphereReservationSpec = VSphereReservationSpec()
    status: VSphereReservationStatus = VSphereReservationStatus()
