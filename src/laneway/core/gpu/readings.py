"""What a driver measures of GPUs and vGPUs, and which vGPU a measurement is of.

A value that the driver does not tell is None and never 0: a GPU without ECC has no errors to count,
and who reads a 0 takes it for sound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one moment."""

    address: PciAddress
    model: str
    driver: str
    ecc: str
    """`Enabled`, `Disabled`, or empty where the GPU has none."""
    numbers: Mapping[str, float]
    """By the driver's name of the field; what it does not tell is left out."""


class VgpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One vGPU that a VM has open, at one moment."""

    gpu: PciAddress
    id: str
    """The driver's number of it, which no two have at once."""
    profile: str
    mdev: str = ""
    """UUID of the mediated device; empty on vendor VFIO, whose driver tells none."""
    domain: str = ""
    """The VM as QEMU calls it; empty where the driver does not know it."""
    gpu_instance: int | None = None
    placement: int | None = None
    numbers: Mapping[str, float]
    """By the driver's name of the field; what it does not tell is left out."""


_DOMAIN = re.compile(r"([a-z0-9][a-z0-9-]{0,62})_([a-z0-9][a-z0-9.-]{0,252})")
"""How KubeVirt names a VM to QEMU: its namespace and its name, neither of which has this line."""


def function_of(reading: VgpuReading, vgpus: Iterable[VgpuFunction]) -> VgpuFunction | None:
    """The function that carries the vGPU; None where that is not certain.

    A driver on vendor VFIO names no function. Its placement is one vGPU's alone, and without one
    so is a profile that only one vGPU of the GPU has.
    """
    known = [one for one in vgpus if one.configured is not None]
    if reading.mdev:
        return _only(one for one in known if one.configured and one.configured.uuid == reading.mdev)
    there = [
        one
        for one in known
        if one.parent == reading.gpu
        and one.configured
        and one.configured.type_name == reading.profile
    ]
    if reading.placement is not None:
        place = reading.gpu_instance, reading.placement
        placed = [
            one
            for one in there
            if one.configured and (one.configured.gpu_instance, one.configured.placement) == place
        ]
        if placed:
            return _only(placed)
    return _only(there)


def vm_of_domain(domain: str) -> tuple[str, str]:
    """Namespace and name of a VM, from what QEMU was called with; no namespace without KubeVirt."""
    name = domain.partition(",")[0].removeprefix("guest=")
    match = _DOMAIN.fullmatch(name)
    return (match[1], match[2]) if match else ("", name)


def _only(found: Iterable[VgpuFunction]) -> VgpuFunction | None:
    there = list(found)
    return there[0] if len(there) == 1 else None
