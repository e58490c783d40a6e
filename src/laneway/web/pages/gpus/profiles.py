"""The vGPU profiles of GPUs as fields to fill in: by size, a column for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.changes.vgpus import known
from laneway.core.gpu.modes import Mode
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import Profile, profile
from laneway.views.gpus import Gpu
from laneway.views.memory import gib
from laneway.web.place import Place

MOST = 64
"""vGPUs of one profile that a layout can have."""
FIELD = "vgpu:"
"""Begins the name of a field; the profile in short follows."""
SERIES = "QCBA"


class Cell(NamedTuple):
    """One profile."""

    name: str
    """As the driver names it."""
    short: str
    field: str
    maximum: int | None
    """On an empty GPU of one size; None: not known."""
    left: int | None
    """How many more fit now; None: not known."""
    offered: bool = True
    """Whether the driver has it, as far as that is known."""


class Size(NamedTuple):
    """Profiles of one size."""

    slices: int
    """Compute slices of the GPU instance; 0: shared by time."""
    mib: int
    variant: str
    cells: Mapping[str, Cell]
    """By series."""

    @property
    def title(self) -> str:
        return gib(self.mib)


class Kinds(NamedTuple):
    """The profiles of a GPU."""

    sliced: Sequence[Size]
    backed: Sequence[Size]
    """Those in GPU instances."""

    @property
    def cells(self) -> list[Cell]:
        return [cell for size in (*self.sliced, *self.backed) for cell in size.cells.values()]

    @staticmethod
    def series(sizes: Sequence[Size]) -> list[str]:
        """The series that occur, the most capable first."""
        found = {one for size in sizes for one in size.cells}
        return [one for one in SERIES if one in found]


class Counts(NamedTuple):
    """The contents of the fields."""

    vgpus: Mapping[str, int]
    """By profile as the driver names it."""
    problems: Mapping[str, str]
    """By field, the text that is no count."""
    texts: Mapping[str, str]
    """By field, as it is written."""


def kinds_of(gpu: Gpu) -> Kinds:
    """What a GPU offers, or would offer in its other modes."""
    driver, catalogue = known(gpu)
    names = {short_name(name): name for name in (*sorted(catalogue), *sorted(driver))}
    found = [one for one in map(profile, names.values()) if one is not None]
    sizes: dict[tuple[int, int, str], dict[str, Cell]] = {}
    for one in sorted(found, key=lambda one: (one.slices, one.framebuffer_mib, one.variant)):
        place = one.slices, one.framebuffer_mib, one.variant
        sizes.setdefault(place, {})[one.series] = _cell(gpu, one)
    rows = [Size(*place, cells) for place, cells in sizes.items()]
    return Kinds([row for row in rows if not row.slices], [row for row in rows if row.slices])


def common(gpus: Sequence[Gpu]) -> Kinds:
    """The profiles that each of several GPUs has."""
    every = [{cell.short for cell in kinds_of(gpu).cells} for gpu in gpus]
    shared = set.intersection(*every) if every else set()
    if not gpus:
        return Kinds([], [])
    first = kinds_of(gpus[0])
    return Kinds(_only(first.sliced, shared), _only(first.backed, shared))


def _only(sizes: Sequence[Size], shared: set[str]) -> list[Size]:
    kept = [
        size._replace(
            cells={
                series: cell._replace(left=None)
                for series, cell in size.cells.items()
                if cell.short in shared
            }
        )
        for size in sizes
    ]
    return [size for size in kept if size.cells]


def _cell(gpu: Gpu, one: Profile) -> Cell:
    short, status = short_name(one.name), gpu.device.status
    left = status.fits.get(one.name)
    if one.slices:
        left = left or None  # A plan creates the GPU instances that are missing.
    # Nothing takes the room of what does not fit on an empty GPU: its driver does not have it.
    is_empty = status.mode in (Mode.SAME_SIZE, Mode.MIXED_SIZE) and not status.configured
    offered = bool(one.slices or left or left is None or not is_empty)
    return Cell(one.name, short, f"{FIELD}{short}", one.maximum, left, offered)


def counts_in(place: Place, kinds: Kinds) -> Counts:
    """What the query says about each profile."""
    vgpus: dict[str, int] = {}
    problems: dict[str, str] = {}
    texts: dict[str, str] = {}
    for cell in kinds.cells:
        text = place.get(cell.field).strip()
        if not text:
            continue
        texts[cell.field] = text
        if not (text.isascii() and text.isdecimal() and int(text[:4]) <= MOST and len(text) < 4):
            problems[cell.field] = text
        elif int(text):
            vgpus[cell.name] = int(text)
    return Counts(vgpus, problems, texts)


def texts_of(vgpus: Mapping[str, int]) -> dict[str, str]:
    """The same fields from counts by profile."""
    return {f"{FIELD}{short_name(name)}": str(count) for name, count in vgpus.items() if count}
