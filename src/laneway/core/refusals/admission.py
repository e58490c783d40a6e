"""Why admission refuses a claim, or that a device is taken from its user.

The words begin with those that Harvester's webhook has for the same, because people search for
them; afterwards they say what to do. A refusal that has a `field` is about what is written there.
"""

from __future__ import annotations

from typing import ClassVar

from laneway.core.passthrough.usability import needed_remedy
from laneway.core.phrases import few, line, quoted, set_enabled, shown
from laneway.core.refusals.base import Refusal
from laneway.core.use import Use, in_words, to_release


class FieldImmutable(Refusal, frozen=True):
    """A field that says what an object is about is to be changed."""

    kind: str
    name: str
    called: str
    """The field in one word."""
    field: str
    was: str

    @property
    def words(self) -> str:
        return (
            f"{self.kind} {self.name} {self.called} is immutable, and is {quoted(self.was)}. "
            "Create another object instead."
        )


class PciDeviceNotFound(Refusal, frozen=True, tag="DeviceNotFound"):
    """An object is about a PCI function that there is not."""

    name: str

    @property
    def words(self) -> str:
        return (
            f'pcidevices.devices.harvesterhci.io "{shown(self.name)}" not found. kubectl get '
            "pcidevices lists the devices; a claim has the name of its PCIDevice."
        )


class ClaimMismatch(Refusal, frozen=True, tag="NameMismatch"):
    """A claim speaks of another device than its name."""

    field: ClassVar[str] = "spec.address"
    name: str
    address: str
    node: str
    is_address: str
    is_node: str

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} is {shown(self.is_address)} on node {shown(self.is_node)}, "
            f"not {quoted(self.address)} on node {quoted(self.node)}. Correct spec.address and "
            "spec.nodeName, or name the claim after the device that you mean."
        )


class NoIommuGroup(Refusal, frozen=True):
    """A device is claimed that the node cannot isolate."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} has no iommuGroup available. Enable the IOMMU: VT-d, AMD-Vi "
            "or SMMU in the firmware, on Intel also intel_iommu=on on the kernel command line. "
            "Reboot the node."
        )


class CriticalToNode(Refusal, frozen=True):
    """A device is claimed that its node cannot do without."""

    name: str
    why: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} is critical to its node: {few(self.why)}. "
            f"{needed_remedy(self.why)}"
        )


class GroupMemberInUse(Refusal, frozen=True):
    """A device is claimed whose IOMMU group cannot leave the node as a whole."""

    name: str
    group: str
    why: str

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} cannot leave its node without the rest of iommuGroup "
            f"{line(self.group)}: {line(self.why)}. Free that device first, or move the card to a "
            "slot with a group of its own."
        )


class NotClaimable(Refusal, frozen=True):
    """A device is claimed that its agent says cannot be given away."""

    kind: str
    name: str
    why: str
    remedy: str = ""
    """What to do about it, in whole sentences."""

    @property
    def words(self) -> str:
        remedy = self.remedy or f"See its conditions: kubectl describe {self.kind} {self.name}"
        return f"{self.kind} {self.name} cannot be claimed: {line(self.why).rstrip('.')}. {remedy}"


class GpuShared(Refusal, frozen=True):
    """A GPU is claimed as a whole while it is shared."""

    gpu: str
    functions: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.gpu} has the vGPU devices {few(self.functions)}. Disable "
            f"sriovgpudevice {self.gpu} first, or use its vGPUs in VMs. To disable it: "
            f"{set_enabled('sriovgpudevice', self.gpu, enabled=False)}"
        )


class UsbControllerClaimed(Refusal, frozen=True):
    """A USB device is claimed whose controller is claimed as a whole."""

    name: str
    claim: str

    @property
    def words(self) -> str:
        return (
            f"The USB controller of usbdevice {self.name} is claimed as a whole by pcideviceclaim "
            f"{self.claim}. Use the device through the controller, or delete that claim first: "
            f"kubectl delete pcideviceclaim {self.claim}"
        )


# --------------------------------------------------------------------------------- whose it is


class UserNameForbidden(Refusal, frozen=True):
    """A user makes a claim in another's name."""

    kind: str
    name: str
    user: str
    requester: str

    @property
    def words(self) -> str:
        return (
            f"spec.userName of {self.kind} {self.name} is {quoted(self.user)}, and you are "
            f"{quoted(self.requester)}. Leave it out to claim the device for yourself; only an "
            f"administrator of {self.kind}s can claim it for another user."
        )


class NotClaimOwner(Refusal, frozen=True):
    """A user changes or deletes a claim of another."""

    kind: str
    name: str
    user: str
    done: str
    """What is done to it: changed, deleted."""

    @property
    def words(self) -> str:
        owner = f"user {quoted(self.user)}" if self.user else "an unknown user"
        return (
            f"{self.kind} {self.name} belongs to {owner}, so it cannot be {self.done} by you. Ask "
            f"that user or an administrator of {self.kind}s."
        )


class ClaimManaged(Refusal, frozen=True):
    """The claim of a vGPU is treated as if it were a user's own."""

    name: str
    vgpu: str
    made: bool = False
    """Whether it is to be made, not deleted."""

    @property
    def words(self) -> str:
        if self.made:
            return (
                f"pcideviceclaim {self.name} cannot be created by you: Laneway itself creates the "
                f"claims of VGPUDevice {line(self.vgpu)}. Enable that VGPUDevice instead."
            )
        return (
            f"pcideviceclaim {self.name} cannot be deleted, it is owned by VGPUDevice "
            f"{line(self.vgpu)}. Set spec.enabled of that VGPUDevice to false instead; Laneway "
            "then deletes the claim."
        )


# ---------------------------------------------------------------------------------- its users


class ClaimInUse(Refusal, frozen=True):
    """A claim is deleted whose device a VM or a pod uses or names."""

    name: str
    users: tuple[Use, ...]

    @property
    def words(self) -> str:
        return (
            f"pcideviceclaim {self.name} is already in use with {in_words(self.users)}. "
            f"{to_release(self.users)}"
        )


class UsbClaimInUse(Refusal, frozen=True, tag="ClaimInUse"):
    """The same of a USB device."""

    name: str
    users: tuple[Use, ...]

    @property
    def words(self) -> str:
        return (
            f"usbdeviceclaim {self.name} is still in use by {in_words(self.users)}. "
            f"{to_release(self.users)}"
        )


class UsbDeviceClaimed(Refusal, frozen=True, tag="DeviceClaimed"):
    """The object of a USB device is deleted that virtual machines can use."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"usbdevice {self.name} is still in use: it has a usbdeviceclaim. First delete that "
            f"claim (kubectl delete usbdeviceclaim {self.name})."
        )


class DeviceClaimed(Refusal, frozen=True):
    """The object of a PCI function is deleted that is claimed; the claim would go with it."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} is still in use: it has a pcideviceclaim, which would be "
            "deleted with it. First delete that claim (kubectl delete pcideviceclaim "
            f"{self.name})."
        )


class DeviceInUse(Refusal, frozen=True):
    """A device is to go or to change that a VM or a pod uses or names."""

    device: str
    users: tuple[Use, ...]

    @property
    def words(self) -> str:
        return (
            f"device {self.device} is in use with {in_words(self.users)}. {to_release(self.users)}"
        )
