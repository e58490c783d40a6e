"""How an NVIDIA GPU is shared: the modes to choose from, and what a card says about its own.

A mode is a choice about a whole card, and no driver makes it silently: MIG mode above all survives
reboots and takes every time-sliced profile away.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Mode(StrEnum):
    """What a GPU is for. The values are those of `spec.mode` in the API."""

    PASSTHROUGH = "Passthrough"
    """Whole, for one virtual machine: no virtual functions, no MIG."""
    SAME_SIZE = "SameSize"
    """vGPUs that share it by time, all of one size. What a GPU does by default."""
    MIXED_SIZE = "MixedSize"
    """vGPUs that share it by time, of different sizes."""
    MIG = "MIG"
    """GPU instances, no vGPUs."""
    MIG_BACKED = "MIGBacked"
    """vGPUs in GPU instances."""

    @property
    def has_vfs(self) -> bool:
        """Whether the mode is about virtual functions."""
        return self in (Mode.SAME_SIZE, Mode.MIXED_SIZE, Mode.MIG_BACKED)

    @property
    def has_mig(self) -> bool:
        """Whether it needs the card's MIG mode."""
        return self in (Mode.MIG, Mode.MIG_BACKED)


def mode_named(text: str) -> Mode | None:
    """The mode of a name; None where there is none."""
    return next((mode for mode in Mode if mode.value == text), None)


class GpuInstanceProfile(msgspec.Struct, frozen=True):
    """A kind of GPU instance that a card in MIG mode offers (`nvidia-smi mig -lgip, -lgipp`)."""

    name: str
    """`1g.5gb`, without the word MIG"""
    id: int
    total: int
    """On an empty card."""
    starts: tuple[int, ...]
    """Placements at which one may begin, used or not."""
    size: int
    """Memory slices that one takes."""
    engines: tuple[int, ...] = ()
    """Decoders, encoders, JPEG decoders and optical flow engines of it; empty: not reported."""


class GpuInstance(msgspec.Struct, frozen=True):
    """A GPU instance that exists."""

    id: int
    profile: str
    profile_id: int
    start: int
    size: int
    compute_instances: int = 0


class GpuModes(msgspec.Struct, frozen=True, kw_only=True):
    """What only the driver's own program tells about one GPU."""

    mig: bool | None = None
    """None: the card cannot MIG."""
    mixed_size: bool | None = None
    """None: the card or its driver cannot mix vGPU sizes, or MIG mode is on."""
    profiles: tuple[GpuInstanceProfile, ...] = ()
    instances: tuple[GpuInstance, ...] = ()
