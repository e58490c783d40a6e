"""Why virtual functions do not come, go or change."""

from __future__ import annotations

from laneway.core.passthrough.usability import needed_remedy
from laneway.core.phrases import few, listed, set_enabled
from laneway.core.refusals.base import Refusal


class NoSriov(Refusal, frozen=True):
    """The function cannot have virtual functions."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} has no virtual functions. If the model supports SR-IOV, enable it in "
            "the firmware of the node and of the card."
        )


class IommuDisabled(Refusal, frozen=True, tag="NoIommuGroup"):
    """The device is in no IOMMU group, so virtual machines could use nothing of it."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"The IOMMU is off: {self.device} is in no IOMMU group, so VMs cannot use its virtual "
            "functions. Enable VT-d, AMD-Vi or the SMMU in the firmware, on Intel also "
            "intel_iommu=on on the kernel command line, and reboot the node."
        )


class VfCountInvalid(Refusal, frozen=True):
    """More virtual functions than the device has, or less than none."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return f"{self.device} can have 0 to {self.total} virtual functions, not {self.count}."


class GpuVfCountInvalid(Refusal, frozen=True, tag="VfCountInvalid"):
    """A GPU's virtual functions come and go together only."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return (
            f"The driver enables all virtual functions of GPU {self.device} or none: request "
            f"{self.total} or 0, not {self.count}."
        )


class UnmanagedVfs(Refusal, frozen=True):
    """The card has virtual functions that were not requested from Laneway."""

    device: str
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} virtual functions that were not created through this "
            "object, so Laneway does not change them. To take them over, request them here; to "
            "remove them, request 0 after that."
        )


class UnmanagedVfCount(Refusal, frozen=True):
    """The card has another number of virtual functions than desired, not because of this object."""

    device: str
    asked: int
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} virtual functions that were not created through this "
            f"object, so they do not become {self.asked}. To take them over, request {self.count}; "
            f"to change them, request {self.asked} after that."
        )


class CardCriticalToNode(Refusal, frozen=True, tag="CriticalToNode"):
    """The number of virtual functions would change of a card that the node itself uses."""

    device: str
    why: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"The number of virtual functions of {self.device} cannot change, because a change "
            f"resets the card, and the node uses it: {few(self.why)}. {needed_remedy(self.why)}"
        )


class VfDriverMissing(Refusal, frozen=True):
    """The GPU has its virtual functions, but no driver has taken some of them."""

    device: str
    functions: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"The driver is not bound to {listed(self.functions)} of {self.device}, so they cannot "
            "have vGPUs. The kernel log has its errors (dmesg). Disable the GPU and enable it "
            "again."
        )


class VfsIncomplete(Refusal, frozen=True):
    """The driver's program has made a part of a GPU's virtual functions only."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} of its {self.total} virtual functions: sriov-manage "
            "failed halfway, and the kernel log has the errors (dmesg). To create all of them, "
            "disable the GPU and enable it again; without a cluster: laneway host release "
            f"{self.device}"
        )


class VgpusEnabled(Refusal, frozen=True):
    """vGPUs are enabled on virtual functions that would have to go."""

    device: str
    names: tuple[str, ...]
    """Of the VGPUDevices."""

    @property
    def words(self) -> str:
        return (
            f"vGPUs of {self.device} are enabled, and this change would remove them. Disable them "
            f"first: {set_enabled('vgpudevice', *self.names, enabled=False)}"
        )
