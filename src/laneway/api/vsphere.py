"""Laneway's kinds for vSphere: a vCenter, the GPUs of its hosts, what machines were promised.

What a vCenter has is kept in objects, so that webhooks, the command line and people see it without
credentials; a promise is an object, so that it outlives whoever made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from laneway.api.fields import API_VERSION, fixed
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
    """How a vCenter is reached."""

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
    """What is known of a vCenter. Conditions: Ready (logged in, and its inventory is followed)."""

    version: Annotated[str, Meta(description="Release of the vCenter, with its build.")] = ""
    hosts: Annotated[int, Meta(description="Hosts that have GPUs or other such devices.")] = 0
    gpus: Annotated[int, Meta(description="GPUs of these hosts.")] = 0


class VCenter(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A vCenter whose GPUs Laneway looks after."""

    api_version: str = API_VERSION
    kind: str = "VCenter"
    metadata: ObjectMeta = ObjectMeta()
    spec: VCenterSpec = VCenterSpec()
    status: VCenterStatus = VCenterStatus()


class HostDevice(_Part, frozen=True, kw_only=True):
    """A PCI device that whole machines may have."""

    id: Annotated[str, Meta(description="PCI address on the host.")] = ""
    vendor_id: Annotated[int, Meta(description="PCI vendor id, as a decimal number.")] = 0
    device_id: Annotated[int, Meta(description="PCI device id, as a decimal number.")] = 0
    sub_vendor_id: Annotated[
        int, Meta(description="Vendor id of the card's maker, as a decimal number.")
    ] = 0
    sub_device_id: Annotated[
        int, Meta(description="Device id of the card's maker, as a decimal number.")
    ] = 0
    name: Annotated[str, Meta(description="What vCenter calls it.")] = ""
    label: Annotated[
        str, Meta(description="Hardware label, by which equal cards are told apart.")
    ] = ""
    display: Annotated[bool, Meta(description="Whether it is a display or 3D controller.")] = False
    active: Annotated[bool, Meta(description="Whether the host hands it out.")] = False
    vm: Annotated[str, Meta(description="The VM that is on with it.")] = ""


class HostProfile(_Part, frozen=True, kw_only=True):
    """A vGPU profile that a board supports."""

    name: Annotated[str, Meta(description="Name of the profile, grid_t4-8q.")] = ""
    memory_gib: Annotated[int, Meta(description="GPU memory that one such vGPU takes.")] = field(
        default=0, name="memoryGiB"
    )
    mig: Annotated[bool, Meta(description="Whether it is a MIG instance, not a share of time.")] = (
        False
    )
    compute: Annotated[bool, Meta(description="Whether it is for computing, not for graphics.")] = (
        False
    )
    migrates: Annotated[bool, Meta(description="Whether a VM that is on can be moved with it.")] = (
        False
    )


class HostBoardUser(_Part, frozen=True, kw_only=True):
    """A vGPU of a VM that is on."""

    vm: Annotated[str, Meta(description="Managed object of the VM.")] = ""
    profile: Annotated[
        str, Meta(description="Profile of its vGPU; empty where vCenter does not tell.")
    ] = ""


class HostBoard(_Part, frozen=True, kw_only=True):
    """A GPU that vGPUs share."""

    id: Annotated[str, Meta(description="PCI address on the host.")] = ""
    name: Annotated[str, Meta(description="What vCenter calls it.")] = ""
    memory_gib: Annotated[int, Meta(description="GPU memory of the board.")] = field(
        default=0, name="memoryGiB"
    )
    mode: Annotated[
        str, Meta(description="How vGPUs share it: sameSize, mixedSize, multiInstanceGpu or none.")
    ] = ""
    profiles: Annotated[Sequence[HostProfile], Meta(description="Profiles that it supports.")] = []
    users: Annotated[Sequence[HostBoardUser], Meta(description="vGPUs of VMs that are on.")] = []


class HostGroupPart(_Part, frozen=True, kw_only=True):
    """Devices of one kind in a device group."""

    type: Annotated[
        str, Meta(description="Kind of device: pciPassthru, nvidiaVgpu, sriovNic or dvx.")
    ] = ""
    name: Annotated[str, Meta(description="What vCenter calls it.")] = ""
    vendor_id: Annotated[int, Meta(description="PCI vendor id, as a decimal number.")] = 0
    device_id: Annotated[int, Meta(description="PCI device id, as a decimal number.")] = 0
    profile: Annotated[str, Meta(description="vGPU profile, where it is one.")] = ""
    label: Annotated[str, Meta(description="Hardware label, where it has one.")] = ""


class HostDeviceGroup(_Part, frozen=True, kw_only=True):
    """A vendor device group that a host offers."""

    name: Annotated[str, Meta(description="Name of the group, by which machines ask for it.")] = ""
    description: Annotated[str, Meta(description="What vCenter says of it.")] = ""
    parts: Annotated[
        Sequence[HostGroupPart], Meta(description="Devices that make up the group.")
    ] = []


class VSphereHostSpec(_Part, frozen=True, kw_only=True):
    """Which host it is."""

    vcenter: Annotated[
        str,
        Meta(
            description="Name of the VCenter object. Fixed.",
            extra_json_schema={"x-kubernetes-validations": fixed("vCenter")},
        ),
    ] = field(default="", name="vCenter")
    ref: Annotated[
        str,
        Meta(
            description="Managed object of the host, host-21. Fixed.",
            extra_json_schema={"x-kubernetes-validations": fixed("ref")},
        ),
    ] = ""


class VSphereHostStatus(_Part, frozen=True, kw_only=True):
    """What a host has, as vCenter tells it."""

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
    connected: Annotated[bool, Meta(description="Whether vCenter reaches it.")] = False
    maintenance: Annotated[
        bool, Meta(description="Whether it is in maintenance, or entering it.")
    ] = False
    shared_direct: Annotated[bool, Meta(description="Whether vGPUs are its default.")] = False
    devices: Annotated[
        Sequence[HostDevice], Meta(description="PCI devices that VMs may use whole.")
    ] = []
    boards: Annotated[Sequence[HostBoard], Meta(description="GPUs that vGPUs share.")] = []
    device_groups: Annotated[
        Sequence[HostDeviceGroup], Meta(description="Vendor device groups that it offers.")
    ] = []


class VSphereHost(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A host of a vCenter that has GPUs or other devices for machines. Written by Laneway."""

    api_version: str = API_VERSION
    kind: str = "VSphereHost"
    metadata: ObjectMeta = ObjectMeta()
    spec: VSphereHostSpec = VSphereHostSpec()
    status: VSphereHostStatus = VSphereHostStatus()


class AllocatedItem(_Part, frozen=True, kw_only=True):
    """What one item of the machine's list is promised."""

    type: Annotated[str, Meta(description="What is asked for: vGPU, Device or Group.")] = ""
    asked: Annotated[
        str, Meta(description="Profile, vendor:device in hex, or name of the device group.")
    ] = ""
    label: Annotated[str, Meta(description="Hardware label that was asked for.")] = ""
    devices: Annotated[
        Sequence[str], Meta(description="PCI addresses on the host of the devices or boards.")
    ] = []


class VSphereReservationSpec(_Part, frozen=True, kw_only=True):
    """What is promised, in the order of the machine's list."""

    vcenter: Annotated[
        str, Meta(description="Name that the VCenter object of the server has now.")
    ] = field(default="", name="vCenter")
    server: Annotated[str, Meta(description="Host name or address of the vCenter.")] = ""
    host: Annotated[str, Meta(description="Managed object of the host, host-21.")] = ""
    host_name: Annotated[str, Meta(description="Name of the host.")] = ""
    seats: Annotated[
        Sequence[AllocatedItem], Meta(description="What is reserved for each item of the list.")
    ] = []


class DeviceStatus(_Part, frozen=True, kw_only=True):
    """How one item stands: what was asked, what was attached, where, and its state."""

    asked: Annotated[
        str, Meta(description="Profile, vendor:device in hex, or name of the device group.")
    ] = ""
    label: Annotated[str, Meta(description="Hardware label that was asked for.")] = ""
    state: Annotated[
        DeviceState, Meta(description="Reserved, Attached, InUse, Missing or Refused.")
    ] = ""
    attached: Annotated[
        str, Meta(description="Backing of the VM's device: profile, or PCI address while it is on.")
    ] = ""
    key: Annotated[int, Meta(description="Key of the VM's device.")] = 0
    host: Annotated[str, Meta(description="Name of the host.")] = ""
    message: Annotated[str, Meta(description="Why, where it is not as it should be.")] = ""


class VSphereReservationStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How the promise is kept. Ready: all devices are attached; of a VM that is on, in use."""

    vm: Annotated[str, Meta(description="Managed object of the VM, vm-42.")] = ""
    devices: Annotated[
        Sequence[DeviceStatus], Meta(description="How each item of the list stands, in its order.")
    ] = []


class VSphereReservation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Devices that are kept for one machine; named like its VSphereVM. Written by Laneway."""

    api_version: str = API_VERSION
    kind: str = "VSphereReservation"
    metadata: ObjectMeta = ObjectMeta()
    spec: VSphereReservationSpec = VSphereReservationSpec()
    status: VSphereReservationStatus = VSphereReservationStatus()
