"""What to simulate, in the words of `--simulate`: `MODEL[:COUNT][,iommu=off]`, or a dump's path."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from laneway.core.pci import PciAddress
from laneway.sim import dump
from laneway.sim.boot import installed
from laneway.sim.build import Machine
from laneway.sim.host import SimulatedHost
from laneway.sim.models import MODELS
from laneway.sim.modules import Availability, kernel_files
from laneway.sim.seats import Seat, seated

MAX_COUNT = 1000

_MODEL = re.compile(r"([a-z0-9-]+)(?::([0-9]{1,9}))?(,iommu=off)?")


class SpecError(ValueError):
    """The text names nothing that can be simulated; says what would be right."""


class Spec(msgspec.Struct, frozen=True):
    """One kind of host, and how many of it. Either `model` or `path` is set."""

    model: str = ""
    path: str = ""
    count: int = 1
    iommu: bool = True
    """Whether the host is set up for passthrough, or as the installer left it."""

    @property
    def label(self) -> str:
        """A short name for such hosts: the model, or the file's name without its endings."""
        stem = os.path.basename(self.path).partition(".")[0].lower()
        return self.model or re.sub(r"[^a-z0-9]+", "-", stem).strip("-") or "dump"


def parse_spec(text: str) -> Spec:
    """Read a SPEC. Raises SpecError."""
    match = _MODEL.fullmatch(text)
    if match is not None and match[1] in MODELS:
        count = int(match[2] or 1)
        if not 1 <= count <= MAX_COUNT:
            raise SpecError(f"cannot simulate {count} hosts at once: use 1 to {MAX_COUNT}")
        return Spec(model=match[1], count=count, iommu=not match[3])
    if os.path.isfile(text):
        return Spec(path=text)
    known = ", ".join(MODELS)
    if "/" in text:
        raise SpecError(f"no dump at {text}: give the path of a file, or a model: {known}")
    raise SpecError(
        f"unknown model {text[:80]!r}: use one of {known} (MODEL, MODEL:COUNT, "
        "MODEL,iommu=off), "
        "or the path of a dump by umockdev-record or laneway capture"
    )


@lru_cache(maxsize=len(MODELS))
def _machine(model: str) -> Machine:
    """The model, made once: all hosts of it share the bytes of its attributes."""
    return MODELS[model]()


def build(
    spec: Spec,
    name: str,
    vfio: Availability | None = None,
    seats: Mapping[PciAddress, Seat] | None = None,
) -> SimulatedHost:
    """One host of this kind, with vfio-pci as the kind has it or as `vfio` says.

    `seats`: booted with its GPUs in these slots. Raises DumpError for a dump that cannot be used.
    """
    machine = Machine() if spec.path else _machine(spec.model)
    blocks = dump.read(spec.path) if spec.path else machine.blocks
    serials: dict[str, str] = {}
    if seats is not None:
        blocks, serials = seated(blocks, seats)
    if not spec.iommu:
        vfio = vfio or "loadable"
    files = machine.files | kernel_files(vfio or machine.vfio)
    if not spec.iommu:
        files |= installed(iommu=False)
    return SimulatedHost(name, blocks, files, serials)


def recorded(blocks: list[dump.Block], name: str) -> SimulatedHost:
    """The host of a dump that has been read."""
    machine = Machine()
    return SimulatedHost(name, blocks, machine.files | kernel_files(machine.vfio), {})
