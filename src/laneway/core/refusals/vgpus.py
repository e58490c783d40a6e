"""Why a vGPU is not made, changed or removed."""

from __future__ import annotations

from laneway.core.phrases import closest, counted, few, listed, quoted, set_enabled, short_name
from laneway.core.refusals.base import Refusal


class ProfileMissing(Refusal, frozen=True):
    """A vGPU is to be enabled, but its profile is not set."""

    offered: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            "spec.vGPUTypeName is empty: name the profile to configure. "
            f"Possible now: {listed(self.offered)}."
        )


class ProfileNotListed(Refusal, frozen=True, tag="ProfileNotOffered"):
    """The driver does not list the profile for this GPU."""

    profile: str
    offered: tuple[str, ...]

    @property
    def words(self) -> str:
        text = f"The driver offers no profile named {quoted(self.profile)} on this GPU."
        if meant := closest(self.profile, self.offered):
            return f"{text} Closest: {listed(meant)}."
        return f"{text} Possible now: {few(self.offered)}." if self.offered else text


class ProfileExhausted(Refusal, frozen=True):
    """The driver knows the profile but cannot create another vGPU of it now."""

    profile: str
    configured: tuple[tuple[str, int], ...]
    """What the GPU carries: profile and count, sorted by name."""
    offered: tuple[str, ...]
    of: int = 0
    """How many fit on the GPU when it carries nothing; 0: not known."""

    @property
    def words(self) -> str:
        most = f" (an empty GPU has room for {self.of})" if self.of else ""
        advice = "Disable one of its vGPUs first"
        if self.offered:
            advice += f", or set spec.vGPUTypeName to a profile that fits: {listed(self.offered)}"
        return (
            f"The GPU has no room for another {short_name(self.profile)}{most}: it has "
            f"{counted(self.configured)}. {advice}."
        )


class VfNotFound(Refusal, frozen=True):
    """The VF is not on the bus, although its GPU is to have VFs."""

    address: str

    @property
    def words(self) -> str:
        return (
            f"{self.address} is not on the PCI bus: the GPU has no virtual functions. Set "
            "spec.enabled of its SRIOVGPUDevice to true."
        )


class GpuDisabled(Refusal, frozen=True):
    """A vGPU is to be enabled on a GPU that is not to have VFs."""

    gpu: str
    """Name of the SRIOVGPUDevice."""

    @property
    def words(self) -> str:
        return (
            "The GPU is not enabled, so it has no virtual functions. First enable it: "
            f"{set_enabled('sriovgpudevice', self.gpu, enabled=True)}"
        )


class NoGpuInstances(Refusal, frozen=True):
    """The GPU is in MIG mode and has no GPU instance that a vGPU could be in."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is in MIG mode and has no GPU instance for the vGPU. "
            "Request GPU instances in the MigConfiguration of the same name, and set its "
            "spec.enabled to true."
        )


class UnmanagedVgpu(Refusal, frozen=True):
    """The function carries a vGPU that was not requested from Laneway."""

    profile: str

    @property
    def words(self) -> str:
        there = (
            f"vGPU {short_name(self.profile)}" if self.profile else "a vGPU of an unknown profile"
        )
        return (
            f"The function has {there}, which was not configured through this object, so Laneway "
            "does not change it. To take it over, set spec.enabled to true with this vGPUTypeName; "
            "to remove it, set spec.enabled to false after that."
        )


class UnmanagedProfile(Refusal, frozen=True):
    """The function carries another vGPU than desired, and not because of this object."""

    profile: str
    running: str

    @property
    def words(self) -> str:
        there = (
            f"vGPU {short_name(self.running)}" if self.running else "a vGPU of an unknown profile"
        )
        return (
            f"The function has {there}, which was not configured through this object, so "
            f"{quoted(self.profile)} does not replace it. To keep it, set spec.vGPUTypeName to its "
            "profile; to remove it, set spec.enabled to false."
        )


class ParametersInvalid(Refusal, frozen=True):
    """Parameters of vGPUs that the driver would not understand."""

    parameters: str

    @property
    def words(self) -> str:
        return (
            f"{self.parameters!r} are not vGPU parameters: write name=value, separated by commas, "
            "such as frame_rate_limiter=0."
        )
