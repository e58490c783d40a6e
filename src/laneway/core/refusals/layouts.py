"""Why a GPU is not divided as a layout asks."""

from __future__ import annotations

from laneway.core.phrases import listed, shown
from laneway.core.refusals.base import Refusal


class OtherLayout(Refusal, frozen=True):
    """Another, older layout means the same GPU."""

    gpu: str
    """Name of the SRIOVGPUDevice."""
    layout: str

    @property
    def words(self) -> str:
        return (
            f"VGPULayout {self.layout} means {self.gpu} too and is older, so it has it. Select the "
            "GPU with one of them only."
        )


class CountTooSmall(Refusal, frozen=True):
    """None, or less than none, of something is asked for."""

    profile: str
    count: int

    @property
    def words(self) -> str:
        return (
            f"{self.count} x {shown(self.profile)} is no number of vGPUs: ask for one at least, "
            "or leave it."
        )


class TooFewFunctions(Refusal, frozen=True):
    """More vGPUs are asked for than the card has virtual functions to carry them."""

    device: str
    count: int
    functions: int

    @property
    def words(self) -> str:
        return (
            f"{self.count} vGPUs need {self.count} virtual functions of {self.device}, and "
            f"{self.functions} of them can carry one. Ask for fewer."
        )


class SizesMixed(Refusal, frozen=True):
    """vGPUs of several sizes are asked for where all must have one."""

    device: str
    profiles: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{listed(self.profiles)} differ in size, and {self.device} carries one size at a "
            "time. Ask for one size, or for mixed sizes (mode MixedSize; of laneway host: "
            "--mixed-size)."
        )


class ModesExclusive(Refusal, frozen=True):
    """Time-sliced and MIG-backed vGPUs are asked for on one card."""

    device: str
    sliced: tuple[str, ...]
    mig_backed: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{listed(self.sliced)} share all of {self.device} by time, {listed(self.mig_backed)} "
            "need MIG mode, and a card is in one mode only. Ask for one kind."
        )


class ModeExcludes(Refusal, frozen=True):
    """A mode and vGPUs are asked for that cannot be on one card."""

    mode: str
    profiles: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"In mode {self.mode} a GPU carries no {listed(self.profiles)}. Ask for another mode, "
            "leave it empty to have what the profiles need, or ask for other profiles."
        )


class LayoutDoesNotFit(Refusal, frozen=True):
    """The vGPUs asked for do not fit on the card together."""

    device: str
    profile: str
    count: int
    possible: int

    @property
    def words(self) -> str:
        return (
            f"{self.count} x {self.profile} do not fit on {self.device} beside the rest: "
            f"{self.possible} of them would. Ask for that many, or for fewer of the others."
        )


class WriteRefused(Refusal, frozen=True):
    """The API server does not let an object below the layout be changed."""

    changed: str
    """`VGPUDevice node1-000008004`"""
    why: str
    """In the words of whoever refused it, admission for example."""

    @property
    def words(self) -> str:
        why = self.why.rstrip(".")
        return f"{self.changed} is not changed as the layout asks: {why}."
