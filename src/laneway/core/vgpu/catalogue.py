"""What is known about NVIDIA's vGPU types without asking a driver.

For planning on hardware that is not there, and for the name of a type that a full card no longer
lists. On a node the driver's own data always wins: type ids, the set of types and the maxima
differ between driver releases. The desired state of a user is the name, never an id.

The table ships as text and is searched when asked; only the types of the boards that were asked
for stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from laneway.core import shipped

# Boards that another board's rows describe.
_ALIASES = {"20b8": "20b5", "20b9": "20b7", "20fd": "20f5", "2336": "2330"}


class VgpuProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One vGPU type of one board."""

    device: str
    """PCI device id of the physical GPU (vendor 10de): four lower-case hex digits."""
    board: str
    """As in type names: `A40`, `RTX6000-Ada`. Boards may share a PCI id: A2 and A16 do."""
    name: str
    """As the driver prints it; unique."""
    type_id: int | None
    """None where no release's id is known."""
    series: str
    """A: applications, B: PC, C: compute, Q: workstation."""
    framebuffer_mib: int
    """Nominal."""
    max_per_gpu: int | None
    """In same-size mode; for a MIG-backed type the sum over all instances of its profile."""
    max_per_vm: int | None
    mig_partition: str
    """The driver's flags for the GPU instance that it needs; empty for a time-sliced type."""
    placement_ids: tuple[int, ...]
    """Where it can be placed in mixed-size mode; empty when it cannot or that is not known."""

    @property
    def mig_backed(self) -> bool:
        return bool(self.mig_partition)


# Boards that share a PCI id, by the subsystem id that tells them apart.
_BOARDS = {"25b6": {"157e": "A2", "14a9": "A16"}}


@lru_cache(maxsize=32)
def profiles_of(device: str, subsystem: str = "") -> tuple[VgpuProfile, ...]:
    """The types of a board by PCI device id (`25b6`).

    Of all boards that share the id, where its subsystem id does not tell which it is.
    """
    key = _ALIASES.get(device, device) + "\t"
    board = _BOARDS.get(device, {}).get(subsystem)
    found = (_profile(line) for line in _lines() if line.startswith(key))
    return tuple(one for one in found if board in (None, one.board))


@lru_cache(maxsize=256)
def profile_named(name: str) -> VgpuProfile | None:
    """The type of a name, as the driver prints it."""
    if name not in names():
        return None  # A spec may name thousands that are none, and to search costs a millisecond.
    fields = f"\t{name}\t"
    found = (_profile(line) for line in _lines() if fields in line)
    return next((profile for profile in found if profile.name == name), None)


def profile_name(device: str, type_id: str) -> str:
    """The name of a type id in either framework's form (`nvidia-742`, `742`); empty if unknown."""
    number = type_id.removeprefix("nvidia-")
    known = (one for one in profiles_of(device) if one.type_id is not None)
    return next((one.name for one in known if str(one.type_id) == number), "")


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Of all types of all boards."""
    return frozenset(line.split("\t", 3)[2] for line in _lines())


def every_profile() -> Iterator[VgpuProfile]:
    """The types of all boards, in the order of the table."""
    return map(_profile, _lines())


def _lines() -> Iterator[str]:
    with open(shipped.path("vgpu_types.tsv"), encoding="utf-8") as file:
        return iter(file.read().splitlines()[1:])


def _profile(line: str) -> VgpuProfile:
    device, board, name, type_id, series, size, per_gpu, per_vm, mig, placements = line.split("\t")
    return VgpuProfile(
        device=device,
        board=board,
        name=name,
        type_id=_number(type_id),
        series=series,
        framebuffer_mib=int(size),
        max_per_gpu=_number(per_gpu),
        max_per_vm=_number(per_vm),
        mig_partition=mig,
        placement_ids=tuple(int(one) for one in placements.split()),
    )


def _number(text: str) -> int | None:
    return int(text) if text else None
