"""Why a GPU is not divided as a layout asks."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.phrases import counted, few, listed, several, short_name, shown
from laneway.core.refusals.base import Refusal


def _short(profiles: Iterable[str]) -> str:
    return listed(map(short_name, profiles))


class GpuOwnedByLayout(Refusal, frozen=True, tag="OwnedByLayout"):
    """Another layout owns the GPU."""

    gpu: str
    """Name of the SRIOVGPUDevice."""
    layout: str

    @property
    def words(self) -> str:
        return (
            f"VGPULayout {self.layout} selects GPU {self.gpu} already, and only one layout "
            f"configures a GPU. Change that one (kubectl edit vgpulayout {self.layout}), or delete "
            f"it, which changes no vGPU (kubectl delete vgpulayout {self.layout})."
        )


class OwnedByVgpuDevices(Refusal, frozen=True):
    """A layout would replace what single VGPUDevices request, and its spec does not say so."""

    gpu: str
    """Name of the SRIOVGPUDevice."""
    asked: tuple[tuple[str, int], ...]
    """Profiles and counts that they request, sorted."""
    vgpus: tuple[str, ...]
    """Names of the VGPUDevices."""

    @property
    def words(self) -> str:
        return (
            f"Single VGPUDevices configure the vGPUs of GPU {self.gpu}: {counted(self.asked)} "
            f"({few(self.vgpus)}). To replace them, set spec.takeOver of the layout to true "
            "(laneway vgpu set: --take-over); or disable these VGPUDevices first."
        )


class OwnedByLayout(Refusal, frozen=True):
    """A single object of a GPU is changed that a layout owns."""

    gpu: str
    """Name of the SRIOVGPUDevice."""
    layout: str

    @property
    def words(self) -> str:
        return (
            f"VGPULayout {self.layout} configures the vGPUs of GPU {self.gpu} and would undo this "
            f"change. Change the layout (kubectl edit vgpulayout {self.layout}); or delete it, "
            "which changes no vGPU, and configure the vGPUs one by one again (kubectl delete "
            f"vgpulayout {self.layout})."
        )


class ApprovalRequired(Refusal, frozen=True):
    """A layout was refused, and what was in its way has gone since."""

    layout: str

    @property
    def words(self) -> str:
        return (
            "The layout was refused when it was written, and nothing was changed. It is possible "
            f"now. To apply it: kubectl patch vgpulayout {self.layout} --type merge "
            '-p \'{"spec":{"whenPossible":true}}\''
        )


class CountInvalid(Refusal, frozen=True):
    """None, or less than none, of something is requested."""

    profile: str
    count: int

    @property
    def words(self) -> str:
        return (
            f"{shown(short_name(self.profile))}={self.count} is not a number of vGPUs: request at "
            "least 1, or leave the profile out."
        )


class TooFewVfs(Refusal, frozen=True, tag="LayoutDoesNotFit"):
    """More vGPUs are requested than the card has virtual functions to carry them."""

    device: str
    count: int
    functions: int

    @property
    def words(self) -> str:
        return (
            f"{self.count} vGPUs need {self.count} virtual functions, and {self.functions} of "
            f"{self.device} can have one. Request at most {self.functions} vGPUs."
        )


class SizesMixed(Refusal, frozen=True):
    """vGPUs of several sizes are requested where all must have one."""

    device: str
    profiles: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{_short(self.profiles)} differ in size, and all vGPUs of {self.device} must have one "
            "size. Request one size, or choose mode MixedSize (--mode MixedSize; in a VGPULayout "
            "spec.mode; laneway host: --mixed-size)."
        )


class ProfilesConflict(Refusal, frozen=True, tag="ModeConflict"):
    """Time-sliced and MIG-backed vGPUs are requested on one card."""

    device: str
    sliced: tuple[str, ...]
    mig_backed: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{_short(self.sliced)} are time-sliced, {_short(self.mig_backed)} need MIG mode, and "
            f"{self.device} can be in one mode only. Request profiles of one kind."
        )


class ModeConflict(Refusal, frozen=True):
    """A mode and vGPUs are requested that cannot be on one card."""

    mode: str
    profiles: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"A GPU in mode {self.mode} cannot have {_short(self.profiles)}. Choose another mode, "
            "leave spec.mode empty to use the mode that the profiles need, or choose other "
            "profiles."
        )


class LayoutDoesNotFit(Refusal, frozen=True):
    """The vGPUs requested do not fit on the card together."""

    device: str
    profile: str
    count: int
    possible: int
    others: bool
    """Whether vGPUs of other profiles are requested as well."""

    @property
    def words(self) -> str:
        together = " together with the other requested vGPUs" if self.others else ""
        fits = f"at most {self.possible} fit" if self.possible else "not even one fits"
        ways = [several(self.profile, self.possible)] if self.possible else []
        ways.append("fewer of the others" if self.others else "a smaller profile")
        return (
            f"{several(self.profile, self.count)} does not fit on {self.device}{together}: {fits}. "
            f"Request {', or '.join(ways)}."
        )


class UpdateRejected(Refusal, frozen=True):
    """The API server does not let an object below the layout be changed."""

    changed: str
    """`VGPUDevice node1-000008004`"""
    why: str
    """In the words of what refused it, admission for example."""

    @property
    def words(self) -> str:
        return f"{self.changed} cannot be changed as the layout requests: {self.why}"
