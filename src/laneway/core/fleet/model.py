"""A fleet as the planner sees it: nodes, GPUs with their vGPUs, other devices, and VMs.

It is one value, made from a live cluster, from an inventory file, from captures of hosts or from a
few words (`8x l40s`), and every question is answered from it alone. It holds no secrets and no
serial numbers: there is no field for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.ledger.facts import Phase

POD = "pod "
"""Begins the names of pods."""


class Framework(StrEnum):
    """How the host driver makes vGPUs."""

    MDEV = "mdev"
    VENDOR_VFIO = "vendor-vfio"
    UNKNOWN = ""


class Node(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A node of the cluster."""

    name: str
    labels: Mapping[str, str] = {}
    closed: str = ""
    """Why nothing new can start there, in words; empty: it can."""


class Vgpu(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A vGPU that a GPU carries."""

    name: str
    """Of its VGPUDevice."""
    profile: str
    """In the name that the driver gives it: `NVIDIA L40S-24Q`."""
    slot: int | None = None
    """Its first memory slot (GiB) in mixed-size mode, where the driver tells it."""
    instance: int | None = None
    """The GPU instance that it is in, by id."""
    holder: str = ""
    """`NAMESPACE/NAME` of the VM, or `pod NAMESPACE/NAME`; empty: it is free."""
    unhealthy: str = ""
    """Why it could not be allocated if it were free, in words."""


class Gpu(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A GPU that can be shared."""

    name: str
    """Of its SRIOVGPUDevice: `node1-000008000`."""
    node: str
    address: str
    device: str
    """PCI device id: `26b9`."""
    subsystem: str = ""
    board: str = ""
    """`L40S`"""
    mode: str = ""
    """A value of `core.gpu.modes.Mode`; empty: not known, taken as SameSize."""
    functions: int = 0
    """Functions that can carry a vGPU each, used or not; 0 while there are none."""
    framework: Framework = Framework.UNKNOWN
    driver: str = ""
    """Version of the host driver."""
    ecc: bool | None = None
    """None: not known."""
    profiles: tuple[str, ...] = ()
    """What its driver lists, in its names; empty: what the catalogue has."""
    vgpus: tuple[Vgpu, ...] = ()
    instances: tuple[GpuInstance, ...] = ()
    instance_profiles: tuple[GpuInstanceProfile, ...] = ()
    claimed: str = ""
    """By what it is used as a whole (a claim, containers), in words; empty: it is not."""


class Device(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Any other device that VMs can request: passed through whole, a VF, USB."""

    name: str
    node: str
    resource: str
    holder: str = ""
    unhealthy: str = ""


class Vm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A VM, or a pod, that requests devices."""

    name: str
    """`NAMESPACE/NAME`; a pod is `pod NAMESPACE/NAME`."""
    phase: Phase = Phase.RUNNING
    requests: Mapping[str, int] = {}
    """Devices by resource: `nvidia.com/NVIDIA_L40S-24Q: 1`."""
    node: str = ""
    """Where it is; empty: undecided."""
    selector: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    created: str = ""
    migratable: bool | None = None
    """Whether it can be moved while it runs (its own settings allow it); None: not known."""
    stopping: bool = False
    """It runs, and is about to stop."""


class Fleet(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """All of it at one moment."""

    nodes: tuple[Node, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    devices: tuple[Device, ...] = ()
    vms: tuple[Vm, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Resources that could not be read when it was made; what they say is missing here."""
