"""Refusals are data: an enumerated reason with its facts, put into words in one place.

The same value becomes a condition, an event, an admission message, a line of the command line and
a tooltip. The reason is the condition's `reason`, so it never changes once released; the words may.
"""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag_field="reason"):
    """Why something that was asked for is not done. Subclasses name the reason."""

    @property
    def reason(self) -> str:
        """CamelCase word for machines, `ProfileExhausted`."""
        return type(self).__name__


class ProfileMissing(Refusal, frozen=True):
    """A vGPU is to be enabled, but nobody said with which profile."""

    offered: tuple[str, ...]


class ProfileUnknown(Refusal, frozen=True):
    """The driver does not list the profile for this GPU."""

    profile: str
    offered: tuple[str, ...]


class ProfileExhausted(Refusal, frozen=True):
    """The driver knows the profile but cannot create another vGPU of it now."""

    profile: str
    configured: tuple[tuple[str, int], ...]
    """What the GPU carries: profile and count, sorted by name."""
    offered: tuple[str, ...]


class FunctionMissing(Refusal, frozen=True):
    """The VF is not on the bus, although its GPU is wished to have VFs."""

    address: str


class ConfiguredElsewhere(Refusal, frozen=True):
    """The function carries a vGPU that nobody asked Laneway for."""

    profile: str


class OtherProfileRunning(Refusal, frozen=True):
    """The function carries another vGPU than wished, and not because of this object."""

    profile: str
    running: str


class WrongDevice(Refusal, frozen=True):
    """The object's name and its spec speak of different devices, or of none."""

    name: str
    address: str
    node: str


class NotYetSupported(Refusal, frozen=True):
    """The wish is valid, but this release does not carry it out."""

    wish: str
    state: str


class WriteFailed(Refusal, frozen=True):
    """The kernel or the driver refused a step; what was done before it has been undone."""

    step: str
    error: str
    left_over: tuple[str, ...] = ()
    """Steps that could not be undone."""


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def explain(refusal: Refusal) -> str:
    """The refusal as one or two sentences that a person can act on."""
    match refusal:
        case ProfileMissing(offered):
            return (
                "spec.vGPUTypeName is empty: name the profile to configure. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileUnknown(profile, offered):
            return (
                f"The driver offers no profile named {profile!r} on this GPU. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileExhausted(profile, configured, offered):
            carried = ", ".join(f"{count} x {name}" for name, count in configured) or "nothing"
            return (
                f"No {profile} can be created now: the GPU carries {carried}, and the driver "
                f"leaves no room for another. Possible here now: {_names(offered)}."
            )
        case FunctionMissing(address):
            return (
                f"{address} is not on the PCI bus: the GPU's virtual functions do not exist. "
                "They come back when SR-IOV is enabled on the GPU again."
            )
        case ConfiguredElsewhere(profile):
            return (
                f"The driver has a {profile or 'vGPU of an unknown profile'} here that was not "
                "configured through this object. It is left alone. To take it over, set "
                "spec.enabled to true with this vGPUTypeName; to remove it, disable it afterwards."
            )
        case OtherProfileRunning(profile, running):
            return (
                f"The driver has a {running or 'vGPU of an unknown profile'} here that was not "
                f"configured through this object, so it is not replaced by {profile}. To keep it, "
                "set spec.vGPUTypeName to its profile; to remove it, set spec.enabled to false."
            )
        case WrongDevice(name, address, node):
            return (
                f"spec.address {address!r} on node {node!r} is not the device that the name "
                f"{name} stands for, so nothing is done. Delete this object; every device of a "
                "node has one of its own, which comes back by itself."
            )
        case NotYetSupported(wish, state):
            return f"This release of Laneway cannot {wish} yet. {state}"
        case WriteFailed(step, error, left_over):
            text = f"Could not {step}: {error}."
            if left_over:
                text += f" These steps could not be undone: {'; '.join(left_over)}."
            return text
        case _:
            raise TypeError(f"no words for {refusal!r}")
