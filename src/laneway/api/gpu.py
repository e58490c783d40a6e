"""The kinds of a shared GPU: the GPU itself, its vGPUs and its GPU instances.

JSON names with runs of capitals, and `configureVGPUTypeName` without the "d", are the contract's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, field

from laneway.api.allocation import Allocation
from laneway.api.fields import (
    API_VERSION,
    Address,
    NodeName,
    ParentAddress,
    ResourceName,
    Workload,
)
from laneway.api.meta import ObjectMeta, Status
from laneway.core.gpu.modes import Mode

VGPU_CONFIGURED = "vGPUConfigured"
"""`VGPUDevice.status.vgpu_status` while a vGPU exists; else empty."""

OWNER = (
    "What configures the vGPUs of the GPU: VGPULayout and its name, or VGPUDevices. Empty while "
    "the GPU has no vGPU."
)
"""Description of `owner`, wherever it stands."""

MIG_SYNCED = "synced"
MIG_OUT_OF_SYNC = "out-of-sync"
MIG_DISABLED = "disabled"


def mode_of(empty: str) -> Meta:
    """The description of a mode, which ends with what an empty one means."""
    return Meta(
        description=(
            "How the GPU is shared. Passthrough: not, one VM has it. SameSize: time-sliced vGPUs "
            "of one size. MixedSize: time-sliced vGPUs of different sizes. MIG: GPU instances. "
            f"MIGBacked: vGPUs in GPU instances. {empty}"
        ),
        extra_json_schema={"enum": ["", *Mode]},
    )


class SRIOVGPUDeviceSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """How the GPU is shared."""

    address: Address = ""
    node_name: NodeName = ""
    enabled: Annotated[
        bool, Meta(description="Create the virtual functions, on which vGPUs are configured.")
    ] = field(default_factory=bool)
    mode: Annotated[
        str,
        mode_of("Empty: SameSize. A card that is in MIG mode stays in it."),
    ] = ""
    workload: Workload = ""


class SRIOVGPUDeviceStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The GPU's virtual functions."""

    vf_addresses: Annotated[
        Sequence[str], Meta(description="PCI addresses of the virtual functions, in order.")
    ] = []
    vgpu_devices: Annotated[
        Sequence[str], Meta(description="Names of the VGPUDevices, in the same order.")
    ] = field(default_factory=list, name="vGPUDevices")
    mode: Annotated[str, Meta(description="Mode of the GPU now; empty while it is unknown.")] = ""
    configured: Annotated[
        Mapping[str, int], Meta(description="vGPUs that the GPU has, by profile.")
    ] = {}
    fits: Annotated[
        Mapping[str, int],
        Meta(
            description="How many more vGPUs of each profile fit now, if only that profile is "
            "added."
        ),
    ] = {}
    gpu_uuid: Annotated[str, Meta(description="UUID of the card, the same in any slot.")] = field(
        default="", name="gpuUUID"
    )
    owner: Annotated[str, Meta(description=OWNER)] = ""
    driver_version: Annotated[
        str, Meta(description="Version of NVIDIA's driver, while the GPU has that driver.")
    ] = ""
    ecc_mode: Annotated[
        str,
        Meta(
            description="ECC mode of the GPU's memory, as its driver told it last: Enabled or "
            "Disabled. Empty while it is unknown."
        ),
    ] = ""


class SRIOVGPUDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A GPU that can be shared through SR-IOV virtual functions."""

    api_version: str = API_VERSION
    kind: str = "SRIOVGPUDevice"
    metadata: ObjectMeta = ObjectMeta()
    spec: SRIOVGPUDeviceSpec = SRIOVGPUDeviceSpec()
    status: SRIOVGPUDeviceStatus = SRIOVGPUDeviceStatus()


class VGPUDeviceSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The desired vGPU of the virtual function."""

    address: Address = ""
    node_name: NodeName = ""
    parent_gpu_device_address: ParentAddress = field(default="", name="parentGPUDeviceAddress")
    enabled: Annotated[bool, Meta(description="Configure the vGPU.")] = field(default_factory=bool)
    vgpu_type_name: Annotated[
        str,
        Meta(description="Profile, as in status.availableTypes: NVIDIA A2-4Q."),
    ] = field(default="", name="vGPUTypeName")


class VGPUDeviceStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The vGPU of the virtual function, and the profiles that are possible now."""

    vgpu_status: Annotated[
        str, Meta(description="vGPUConfigured while a vGPU exists, else empty.")
    ] = field(default="", name="vGPUStatus")
    uuid: Annotated[
        str, Meta(description="mdev: the UUID. Vendor-specific VFIO: the type id, not unique.")
    ] = ""
    configure_vgpu_type_name: Annotated[str, Meta(description="Profile in effect.")] = field(
        default="", name="configureVGPUTypeName"
    )
    available_types: Annotated[
        Mapping[str, str],
        Meta(description="Profiles that are possible now, with the driver's type ids."),
    ] = {}
    framework: Annotated[
        str, Meta(description="How the driver makes vGPUs here: mdev or vendor-vfio.")
    ] = ""
    resource_name: ResourceName = ""
    allocation: Annotated[
        Allocation | None,
        Meta(description="The pod and VM that hold the device; absent while none does."),
    ] = None
    placement: Annotated[
        int | None,
        Meta(description="First memory slot of the vGPU, where the driver reports it."),
    ] = None
    gpu_instance: Annotated[
        int | None, Meta(description="Id of the GPU instance that the vGPU is in, if any.")
    ] = None
    last_type_name: Annotated[
        str,
        Meta(
            description=(
                "Profile of the previous vGPU while it is missing. It is restored before new "
                "vGPUs are made."
            )
        ),
    ] = ""
    last_placement: Annotated[
        int | None, Meta(description="First memory slot of that vGPU, where it is restored.")
    ] = None
    owner: Annotated[str, Meta(description=OWNER)] = ""


class VGPUDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A virtual function of a GPU, and the vGPU on it."""

    api_version: str = API_VERSION
    kind: str = "VGPUDevice"
    metadata: ObjectMeta = ObjectMeta()
    spec: VGPUDeviceSpec = VGPUDeviceSpec()
    status: VGPUDeviceStatus = VGPUDeviceStatus()


class MigProfileRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The number of requested GPU instances of one profile."""

    name: Annotated[str, Meta(description="Profile, for example MIG 1g.10gb.")] = ""
    id: Annotated[int, Meta(description="The driver's profile id.")] = field(default_factory=int)
    requested: Annotated[int, Meta(description="Requested instances.")] = field(default_factory=int)


class MigProfileStatus(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The number of existing and possible GPU instances of one profile."""

    name: Annotated[str, Meta(description="Profile, for example MIG 1g.10gb.")] = ""
    id: Annotated[int, Meta(description="The driver's profile id.")] = field(default_factory=int)
    available: Annotated[int, Meta(description="Instances that can still be created.")] = field(
        default_factory=int
    )
    total: Annotated[int, Meta(description="Instances on an empty GPU.")] = field(
        default_factory=int
    )
    vgpu_ids: Annotated[Sequence[str], Meta(description="Ids of the GPU instances.")] = field(
        default_factory=list, name="vGPUID"
    )
    placements: Annotated[
        Sequence[int],
        Meta(description="First memory slices of the GPU instances, in the order of their ids."),
    ] = []
    starts: Annotated[
        Sequence[int],
        Meta(description="Memory slices at which an instance can begin, used or not."),
    ] = []
    size: Annotated[int, Meta(description="Memory slices of an instance.")] = field(
        default_factory=int
    )


class MigConfigurationSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The desired GPU instances."""

    enabled: Annotated[bool, Meta(description="Create the requested GPU instances.")] = field(
        default_factory=bool
    )
    gpu_address: Address = ""
    node_name: NodeName = ""
    profile_spec: Annotated[
        Sequence[MigProfileRequest], Meta(description="Requested instances, by profile.")
    ] = []


class MigConfigurationStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The existing GPU instances."""

    profile_status: Annotated[
        Sequence[MigProfileStatus], Meta(description="Instances, by profile.")
    ] = []
    status: Annotated[str, Meta(description="synced, out-of-sync, disabled or empty.")] = ""
    message: Annotated[str, Meta(description="What differs, or what failed, and why.")] = ""


class MigConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The GPU instances of a GPU in MIG mode."""

    api_version: str = API_VERSION
    kind: str = "MigConfiguration"
    metadata: ObjectMeta = ObjectMeta()
    spec: MigConfigurationSpec = MigConfigurationSpec()
    status: MigConfigurationStatus = MigConfigurationStatus()
