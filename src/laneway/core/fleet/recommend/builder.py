"""An integer program while it is built: variables with what they stand for, and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.profiles import HALF_GIB_MIB


class Variable(msgspec.Struct, frozen=True):
    """What a number of the answer counts."""

    group: int
    """Number of the class."""
    what: str
    """`gpus` in a mode, `vgpus` of a profile, `kept` of those that are there; GPU `instances`, and
    `shares` of them that hold one size."""
    mode: Mode
    profile: str = ""
    """Of a vGPU, or of a GPU instance."""
    size: int = 0
    """Framebuffer (MiB) of the vGPUs in same-size mode."""
    start: int | None = None
    """First slot in mixed-size mode; first memory slice of GPU instances."""


class Row(msgspec.Struct, frozen=True):
    """The sum of `factor * variable` is `most` at the most."""

    terms: tuple[tuple[int, float], ...]
    most: float


class Program(msgspec.Struct, frozen=True):
    """Whole numbers from 0 to `most`: all rows hold, and the sum of `worth` is the greatest."""

    variables: Sequence[Variable]
    most: Sequence[int]
    worth: Sequence[float]
    rows: Sequence[Row]
    unit: int
    """What half a GiB of served memory is worth: more than all that decides between equals."""
    slack: int
    """The most that using GPUs and changing modes can take from the worth."""


class Builder:
    """A program while it grows."""

    def __init__(self, demand: Mapping[str, int], unit: int) -> None:
        self.demand = demand
        self.unit = unit
        self.variables: list[Variable] = []
        self.most: list[int] = []
        self.worth: list[float] = []
        self.rows: list[Row] = []

    def add(self, variable: Variable, most: int, worth: float) -> int:
        self.variables.append(variable)
        self.most.append(most)
        self.worth.append(worth)
        return len(self.variables) - 1

    def worth_of(self, framebuffer_mib: int) -> int:
        return self.unit * (framebuffer_mib // HALF_GIB_MIB)

    def limit(self, terms: Sequence[tuple[int, float]], most: float = 0) -> None:
        self.rows.append(Row(tuple(terms), most))
