"""Why GPU instances are not made or destroyed."""

from __future__ import annotations

from laneway.core.phrases import listed
from laneway.core.refusals.base import Refusal


class MigModeDisabled(Refusal, frozen=True):
    """GPU instances are requested on a card that is not in MIG mode."""

    device: str
    gpu: str
    """Name of the SRIOVGPUDevice."""

    @property
    def words(self) -> str:
        return (
            f"MIG mode of {self.device} is off, and Laneway does not enable it unasked. Set "
            f"spec.mode of SRIOVGPUDevice {self.gpu} to MIG for GPU instances alone, or to "
            "MIGBacked, with spec.enabled true, for vGPUs in them."
        )


class InstanceCountInvalid(Refusal, frozen=True, tag="CountInvalid"):
    """Less than none of a GPU instance is requested."""

    profile: str
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.profile!r}: {self.count} is not a number of GPU instances. Request 0 or more."
        )


class DuplicateProfile(Refusal, frozen=True):
    """One profile of GPU instances is requested in two places."""

    profile: str

    @property
    def words(self) -> str:
        return f"spec.profileSpec names {self.profile} more than once. Request it in one place."


class InstancesDoNotFit(Refusal, frozen=True):
    """The GPU instances requested do not fit on the card together."""

    device: str
    asked: tuple[str, ...]
    obstacle: str

    @property
    def words(self) -> str:
        return (
            f"The GPU instances {listed(self.asked)} do not fit on {self.device}: {self.obstacle}. "
            "Request fewer or smaller ones."
        )


class UnmanagedInstances(Refusal, frozen=True):
    """The card has GPU instances that were not requested from Laneway."""

    device: str
    instances: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{self.device} has GPU instances that were not requested through this object: "
            f"{listed(self.instances)}. They are not changed. To take them over, request them here "
            "and set spec.enabled to true. To destroy them, set it to false afterwards."
        )


class ExtraInstances(Refusal, frozen=True):
    """GPU instances that were not requested exist in addition to, or in place of, those desired."""

    device: str
    instances: tuple[str, ...]
    lacking: tuple[str, ...]
    """What there is no room for because of them."""

    @property
    def words(self) -> str:
        text = (
            f"{self.device} has GPU instances that this object does not request: "
            f"{listed(self.instances)}. They are not changed. To keep them, request them here. To "
            "destroy them, request them here, then remove them again."
        )
        if self.lacking:
            text += f" No room is left for {listed(self.lacking)}."
        return text
