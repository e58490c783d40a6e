"""Why a virtual machine cannot have the devices that it asks for.

Of what there is not enough, `capacity` tells. The key words are those of Harvester's webhook, which
people search for.
"""

from __future__ import annotations

from laneway.core.phrases import few, quoted
from laneway.core.refusals.base import Refusal


class ResourceNotFound(Refusal, frozen=True):
    """No device of any node goes by the name of a resource."""

    entry: str
    """What the machine calls the device."""
    resource: str

    @property
    def words(self) -> str:
        return (
            f"hostdevice {quoted(self.entry)}: resource name {quoted(self.resource)} not found in "
            "pcidevice and usbdevice cache. laneway capacity lists the names that there are."
        )


class DevicesOnSeveralNodes(Refusal, frozen=True):
    """A machine names devices that are on different nodes."""

    device: str
    """`pcidevice/node1-000008000`"""
    node: str
    other: str
    """The one that was found first."""
    other_node: str
    machine: str

    @property
    def words(self) -> str:
        return (
            f"device {self.device} is not on the same node in "
            "VirtualMachine.Spec.Template.Spec.Domain.Devices.HostDevices of "
            f"{self.machine}: it is on {self.node}, and {self.other} on {self.other_node}. A "
            "machine needs all of its devices on one node; name devices of one."
        )


class NodeNotSelected(Refusal, frozen=True):
    """The node of a named device has not the labels that the machine asks for."""

    device: str
    node: str
    labels: tuple[tuple[str, str], ...]
    """Those that are missing."""

    @property
    def words(self) -> str:
        missing = few(f"{key}={value}" for key, value in self.labels)
        return (
            f"device {self.device} is on node {self.node}, which spec.template.spec.nodeSelector "
            f"leaves out: it has not {missing}. Name a device of another node, or ask for other "
            "labels."
        )


class DeviceNamedTwice(Refusal, frozen=True):
    """Two devices of one machine have one name."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"hostdevice {quoted(self.name)} is listed more than once in hostDevices and gpus. "
            "Every device of a machine has a name of its own; remove or rename the others."
        )


class DeviceUnclaimed(Refusal, frozen=True):
    """A named device is not claimed."""

    device: str

    @property
    def words(self) -> str:
        kind, _, name = self.device.rpartition("/")
        claim = "USBDeviceClaim" if kind == "usbdevice" else "PCIDeviceClaim"
        return f"device {self.device} is not claimed. Make a {claim} of the name {name} first."


class DeviceNotReady(Refusal, frozen=True):
    """A named device is claimed, or its vGPU enabled, and virtual machines cannot have it."""

    device: str
    cause: str
    """The reason of its condition."""
    message: str

    @property
    def words(self) -> str:
        said = f": {self.message}" if self.message else "."
        return f"device {self.device} is not ready ({self.cause}){said}"


class VgpuDisabled(Refusal, frozen=True):
    """A named vGPU is not enabled."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"vGPU device {self.name} is not enabled. Set spec.enabled and spec.vGPUTypeName of "
            "the VGPUDevice first."
        )


class DeviceOfAnother(Refusal, frozen=True):
    """A named device is claimed by somebody else."""

    device: str
    owner: str
    user: str

    @property
    def words(self) -> str:
        kind, _, name = self.device.rpartition("/")
        return (
            f"device {self.device} is claimed by {quoted(self.owner)}, not by "
            f"{quoted(self.user)}. Claim one of your own, or have an administrator grant you the "
            f"verb use on {kind}claims {name}."
        )


class PoolOfOthers(Refusal, frozen=True):
    """Of the devices of one resource, too few on any node are the requester's."""

    resource: str
    count: int
    own: int
    """The most that he may use on one node."""
    owners: tuple[str, ...]
    user: str

    @property
    def words(self) -> str:
        others = few(map(quoted, self.owners))
        return (
            f"{self.resource}: {self.count} asked for on one node, where {quoted(self.user)} may "
            f"use {self.own}; the others are claimed by {others}. Claim as many yourself, or have "
            "an administrator grant you the verb use on their claims."
        )


class VgpusPerMachine(Refusal, frozen=True):
    """A vGPU profile does not allow so many vGPUs in one machine."""

    profile: str
    count: int
    maximum: int
    instead: tuple[str, ...]
    """Profiles of the same board that do."""

    @property
    def words(self) -> str:
        instead = (
            f"These allow it: {few(self.instead)}."
            if self.instead
            else "Give each machine fewer of them."
        )
        return (
            f"{self.profile} allows {self.maximum} vGPU in a virtual machine, and {self.count} are "
            f"asked for. {instead}"
        )


class SeveralDisplays(Refusal, frozen=True):
    """More than one vGPU of a machine is to have a display with ramFB."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"Only one display of a machine can have ramFB, and {few(map(quoted, self.names))} "
            "are all to have it. Set virtualGPUOptions.display.enabled, or ramFB.enabled, to "
            "false on all but one."
        )
