"""Why a GPU is not shared, or not in the desired mode."""

from __future__ import annotations

from laneway.core.gpu.modes import Mode
from laneway.core.refusals.base import Refusal


class GpuUnreadable(Refusal, frozen=True):
    """The driver's program does not tell about the GPU, so nothing can be planned."""

    device: str
    error: str

    @property
    def words(self) -> str:
        return (
            f"The driver does not report the state of {self.device}: {self.error}. Check it on the "
            "node: nvidia-smi -q"
        )


class VgpuUnsupported(Refusal, frozen=True):
    """The device is no NVIDIA GPU that can carry vGPUs."""

    device: str
    other: str = ""
    """How a GPU of another vendor is shared, in a sentence."""

    @property
    def words(self) -> str:
        how = f" {self.other}" if self.other else ""
        return (
            f"{self.device} is not an NVIDIA GPU with vGPU support.{how} To list these GPUs: "
            "laneway gpus"
        )


class NoProfiles(Refusal, frozen=True):
    """The driver has no vGPU profile for this model of card."""

    device: str
    driver: str
    """Its release."""

    @property
    def words(self) -> str:
        release = f" {self.driver}" if self.driver else ""
        return (
            f"NVIDIA's driver{release} has no vGPU profile for this model: {self.device} has "
            "virtual functions, and none offers a profile. Install a release of the vGPU driver "
            "for hosts that supports the GPU; the driver for data centres has no profiles."
        )


class GpuClaimed(Refusal, frozen=True):
    """The GPU is claimed as a whole device, so it is not shared."""

    device: str
    claim: str
    user: str
    """Empty where the reader need not know."""

    @property
    def words(self) -> str:
        user = f" of user {self.user}" if self.user else ""
        return (
            f"{self.device} is claimed as a whole by PCIDeviceClaim {self.claim}{user}, "
            f"so it cannot have vGPUs. To use it for vGPUs, delete that claim: "
            f"kubectl delete pcideviceclaim {self.claim}"
        )


class MigUnsupported(Refusal, frozen=True):
    """The card has no MIG mode."""

    device: str

    @property
    def words(self) -> str:
        return f"{self.device} has no MIG mode. Choose another mode and time-sliced profiles."


class MigOnly(Refusal, frozen=True):
    """The card shares itself through MIG only, and MIG mode is off."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} offers no vGPU outside MIG mode, and MIG mode is off. Set spec.mode to "
            "MIGBacked."
        )


class MigConfigurationEnabled(Refusal, frozen=True):
    """A MigConfiguration requests GPU instances on a card that is to leave MIG mode."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"A MigConfiguration requests GPU instances on {self.device}, so it stays in MIG mode. "
            "First set spec.enabled of that MigConfiguration to false."
        )


class MixedSizeUnsupported(Refusal, frozen=True):
    """The card or its driver cannot carry vGPUs of different sizes at once."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} cannot have vGPUs of different sizes at once: the GPU or its driver "
            "does not support mixed sizes. Request one size."
        )


class ModeInvalid(Refusal, frozen=True):
    """A GPU is asked to be in a mode that there is not."""

    mode: str

    @property
    def words(self) -> str:
        return f"{self.mode!r} is not a GPU mode. Use {', '.join(Mode)}, or leave it empty."


class ModeWithoutVfs(Refusal, frozen=True, tag="ModeConflict"):
    """A GPU is to have virtual functions and to be in a mode that has none."""

    device: str
    mode: str

    @property
    def words(self) -> str:
        return (
            f"Mode {self.mode} has no virtual functions, but spec.enabled requests them, so "
            f"{self.device} is left as it is. Set spec.enabled to false, or choose SameSize, "
            "MixedSize or MIGBacked."
        )


class UnmanagedMode(Refusal, frozen=True):
    """The GPU is in another mode than desired, and not because of this object."""

    device: str
    wanted: str
    found: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is in mode {self.found}, which was not set through this object, so it "
            f"does not change to {self.wanted}. To take it over, set the mode to {self.found}; to "
            f"change it, set {self.wanted} after that."
        )


class GpuNotReady(Refusal, frozen=True):
    """The GPU itself is not yet in its desired state, so nothing is made on it."""

    device: str
    what: str
    """What is still to be done, in words."""

    @property
    def words(self) -> str:
        first = self.what.rstrip(".")
        return f"{self.device} is not ready yet: {first}. Laneway continues by itself afterwards."
