"""Why admission refuses what is requested of cards that are shared: network cards, GPUs, vGPUs.

As for claims, the words begin with Harvester's.
"""

from __future__ import annotations

from typing import ClassVar

from laneway.core.phrases import closest, few, line, listed, set_enabled, shown
from laneway.core.refusals.base import Refusal


class VfsClaimed(Refusal, frozen=True):
    """Virtual functions are to go, or to be made again, of which some are claimed."""

    name: str
    claims: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"pcideviceclaims {few(self.claims, ',')} related to sriovnetworkdevice {self.name} in "
            "use. Changing the number of virtual functions removes all of them. Delete these "
            f"claims first: kubectl delete pcideviceclaim {' '.join(self.claims)}"
        )


class GpuObjectShared(Refusal, frozen=True, tag="GpuShared"):
    """The object of a GPU is deleted while it is shared."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"disable gpuDevice {self.name} before deletion: "
            f"{set_enabled('sriovgpudevice', self.name, enabled=False)}"
        )


class GpuSharedOnNode(Refusal, frozen=True, tag="GpuShared"):
    """A node's GPUs are to be for containers while some of them carry vGPUs."""

    node: str
    gpus: tuple[str, ...]
    label: str

    @property
    def words(self) -> str:
        return (
            f"GPUs of node {self.node} are enabled for vGPUs: {few(self.gpus)}. Disable them "
            f"before the node gets the label {self.label}: "
            f"{set_enabled('sriovgpudevice', *self.gpus, enabled=False)}"
        )


class ProfileMissingInWrite(Refusal, frozen=True, tag="ProfileMissing"):
    """A vGPU is enabled, and its profile is not set."""

    field: ClassVar[str] = "spec.vGPUTypeName"
    name: str
    offered: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"VGPUTypeName cannot be empty for vGPU device {self.name}. Possible now: "
            f"{listed(self.offered)}."
        )


class ProfileNotOffered(Refusal, frozen=True):
    """A vGPU is requested that the driver would not make there now."""

    field: ClassVar[str] = "spec.vGPUTypeName"
    name: str
    profile: str
    why: str
    """In whole sentences."""
    offered: tuple[str, ...]

    @property
    def words(self) -> str:
        meant = closest(self.profile, self.offered)
        hint = f"Closest: {listed(meant)}. " if meant else ""
        return (
            f"VGPUTypeName {shown(self.profile)} is not a valid profile for vGPU device "
            f"{self.name}. {line(self.why)} {hint}Possible now: {few(self.offered)}."
        )


class TooManyInstances(Refusal, frozen=True, tag="InstancesDoNotFit"):
    """More GPU instances are requested than any GPU can have."""

    field: ClassVar[str] = "spec.profileSpec"
    name: str
    count: int
    most: int

    @property
    def words(self) -> str:
        return (
            f"MIGConfiguration {self.name} has more than {self.most} instances defined: "
            f"{self.count}. A GPU can have at most {self.most}."
        )


class InstancesUnavailable(Refusal, frozen=True, tag="InstancesDoNotFit"):
    """More GPU instances of a profile are requested than the GPU can have of it."""

    field: ClassVar[str] = "spec.profileSpec"
    name: str
    profile: str
    requested: int
    available: int

    @property
    def words(self) -> str:
        return (
            f"MIGConfiguration {self.name}: requested count {self.requested} of profile "
            f"{shown(self.profile)} is more than the available count {self.available}."
        )


class MigVgpusEnabled(Refusal, frozen=True, tag="VgpusEnabled"):
    """GPU instances are to go while vGPUs in them are enabled."""

    name: str
    vgpus: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"cannot disable MIGConfiguration {self.name} as vGPU {few(self.vgpus)} is enabled. "
            f"First disable it: {set_enabled('vgpudevice', *self.vgpus, enabled=False)}"
        )
