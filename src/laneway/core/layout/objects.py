"""One GPU as a layout finds it: its hardware, and what the objects below the layout ask of it.

The objects belong to the API; here stands only what a decision needs of each: what it requests, and
what its controller has to say against that.
"""

from __future__ import annotations

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress, PciFunction


class Answer(msgspec.Struct, frozen=True):
    """Why the controller of an object does not do what it requests now."""

    reason: str
    message: str
    of: str
    """Kind and name of the object."""


class VgpuObject(msgspec.Struct, frozen=True):
    """A VGPUDevice."""

    name: str
    address: PciAddress
    asks: str | None = None
    """The profile that is enabled; None: no vGPU."""
    refused: Answer | None = None


class GpuObject(msgspec.Struct, frozen=True):
    """The SRIOVGPUDevice."""

    enabled: bool
    mode: str = ""
    refused: Answer | None = None


class MigObject(msgspec.Struct, frozen=True):
    """The MigConfiguration."""

    enabled: bool
    requested: dict[str, int] = {}
    """GPU instances by profile; those of which none is requested may be left out."""
    refused: Answer | None = None


class Objects(msgspec.Struct, frozen=True):
    """All lower objects of one GPU."""

    gpu: GpuObject | None = None
    mig: MigObject | None = None
    vgpus: tuple[VgpuObject, ...] = ()
    """In numeric order."""

    @property
    def refused(self) -> tuple[Answer, ...]:
        """What stands in the way of any of them."""
        every = (self.gpu, self.mig, *self.vgpus)
        return tuple(one.refused for one in every if one is not None and one.refused is not None)


class Found(msgspec.Struct, frozen=True):
    """The hardware of one GPU."""

    gpu: PciFunction
    functions: tuple[VgpuFunction, ...]
    """Those that can carry a vGPU, in numeric order."""
    modes: GpuModes | None
    """None: it could not be read."""

    @property
    def carried(self) -> dict[PciAddress, str]:
        """Profiles by function."""
        return {one.address: one.configured.type_name for one in self.functions if one.configured}
