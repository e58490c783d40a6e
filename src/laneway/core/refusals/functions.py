"""Why virtual functions do not come, go or change."""

from __future__ import annotations

from laneway.core.phrases import few, listed
from laneway.core.refusals.base import Refusal
from laneway.core.usability import needed_remedy


class NoSriov(Refusal, frozen=True):
    """The function cannot have virtual functions."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} cannot have virtual functions. Where the card should, switch SR-IOV on "
            "in the firmware of the machine and of the card."
        )


class NoIommu(Refusal, frozen=True):
    """The device is in no IOMMU group, so virtual machines could use nothing of it."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"The IOMMU is off: {self.device} is in no IOMMU group, so no virtual machine could "
            "use a part of it. Switch on VT-d, AMD-Vi or the SMMU in the firmware, on Intel "
            "also intel_iommu=on on the kernel command line, and reboot the node."
        )


class VfCountOutOfRange(Refusal, frozen=True):
    """More virtual functions than the device has, or less than none."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return f"{self.device} can have 0 to {self.total} virtual functions, not {self.count}."


class VfsAllOrNone(Refusal, frozen=True):
    """A GPU's virtual functions come and go together only."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return (
            f"The virtual functions of GPU {self.device} come and go together: ask for "
            f"{self.total} or for 0, not for {self.count}."
        )


class VfsElsewhere(Refusal, frozen=True):
    """The card has virtual functions that nobody asked Laneway for."""

    device: str
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} virtual functions that were not made through this "
            "object. They are left alone. To take them over, ask for them here; to remove them, "
            "ask for none afterwards."
        )


class OtherVfCount(Refusal, frozen=True):
    """The card has another number of virtual functions than wished, not because of this object."""

    device: str
    asked: int
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} virtual functions that were not made through this "
            f"object, so they do not become {self.asked}. To keep them, ask for {self.count}; to "
            f"have {self.asked}, ask for {self.asked} after that."
        )


class CardInUse(Refusal, frozen=True):
    """The number of virtual functions would change of a card that the node itself uses."""

    device: str
    why: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"The number of virtual functions of {self.device} cannot change, because that resets "
            f"the card and the node uses it: {few(self.why)}. {needed_remedy(self.why)}"
        )


class VfsUndriven(Refusal, frozen=True):
    """The GPU has its virtual functions, but no driver has taken some of them."""

    device: str
    functions: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{self.device} has its virtual functions, but the driver has not taken "
            f"{listed(self.functions)}, so they can carry no vGPU. Its errors are in the kernel "
            "log. Disable the GPU and enable it again."
        )


class VfsMissing(Refusal, frozen=True):
    """The driver's program has made a part of a GPU's virtual functions only."""

    device: str
    count: int
    total: int

    @property
    def words(self) -> str:
        return (
            f"{self.device} has {self.count} of its {self.total} virtual functions: sriov-manage "
            "stopped half way, and the errors are in the kernel log. To make all of them, disable "
            f"the GPU and enable it again; without a cluster: laneway host release {self.device}"
        )


class VgpusEnabled(Refusal, frozen=True):
    """vGPUs are wished on virtual functions that would have to go."""

    device: str
    names: tuple[str, ...]
    """Of the VGPUDevices."""

    @property
    def words(self) -> str:
        return (
            f"vGPUs of {self.device} are enabled, and what is asked of the GPU would take them "
            f"away: set spec.enabled to false first on VGPUDevice {listed(self.names)}."
        )
