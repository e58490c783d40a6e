"""What the picture of a GPU shows, as plain data, and what differs between two of them.

A drawing knows nothing of objects or of HTML, so the state that a plan would reach is drawn by the
same code as the state that is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class Say(Protocol):
    """The catalogue of texts."""

    def __call__(self, id_: str, /, **values: object) -> str: ...

    def __hash__(self) -> int: ...


class State(StrEnum):
    """How a vGPU, a GPU instance or a virtual function is."""

    HELD = "held"
    """Allocated to a VM or pod."""
    IDLE = "idle"
    """There, and allocated to no VM or pod."""
    EMPTY = "empty"
    """A virtual function without a vGPU."""
    MISSING = "missing"
    """Desired, and not there."""
    WRONG = "wrong"
    """There with another profile than the desired one."""
    BROKEN = "broken"
    """There, and not in order."""

    @property
    def is_broken(self) -> bool:
        return self in (State.MISSING, State.WRONG, State.BROKEN)


class Change(StrEnum):
    """What a plan does to a part."""

    NONE = ""
    NEW = "new"
    REMOVED = "removed"
    MOVED = "moved"


class Named(msgspec.Struct, frozen=True):
    """A name, and the page that it leads to."""

    text: str
    href: str = ""


class Vgpu(msgspec.Struct, frozen=True, kw_only=True):
    """A vGPU."""

    name: Named = Named("")
    """Its virtual function; empty for one that is only planned."""
    profile: str
    """`A2-4Q`"""
    mib: int = 0
    holder: Named | None = None
    state: State = State.IDLE
    why: str = ""
    """What is broken, as a sentence."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A run of memory: a vGPU, a GPU instance, or free."""

    start: int
    """MiB."""
    mib: int
    name: str = ""
    """Profile of the vGPU or of the GPU instance; empty: free."""
    id: int | None = None
    """Of the GPU instance."""
    compute: int = 0
    """Compute slices of the GPU instance."""
    vgpus: tuple[Vgpu, ...] = ()
    """The one that the part is, or those in the GPU instance."""
    change: Change = Change.NONE

    @property
    def is_instance(self) -> bool:
        return self.id is not None or self.compute > 0

    @property
    def state(self) -> State:
        """The worst of what is in it."""
        states = {one.state for one in self.vgpus}
        broken = (one for one in (State.MISSING, State.WRONG, State.BROKEN) if one in states)
        return next(broken, State.HELD if State.HELD in states else State.IDLE)


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual function."""

    name: Named
    """Its address."""
    state: State = State.EMPTY
    profile: str = ""
    part: int = 0
    """The number of its part in the picture; 0: none."""


class GpuDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU to draw."""

    title: str
    """What the GPU is called: `node1/0000:08:00.0 A2`."""
    mib: int
    parts: tuple[Part, ...] = ()
    """From the first byte to the last, without gaps."""
    placed: bool = True
    """Whether the driver reports these positions."""
    missing: tuple[Vgpu, ...] = ()
    """vGPUs that are desired and have no place yet."""
    functions: tuple[Function, ...] = ()
    compute: int = 0
    """Compute slices of a GPU in MIG mode."""

    @property
    def allocated_mib(self) -> int:
        return sum(part.mib for part in self.parts if part.name)

    @property
    def occupied(self) -> tuple[Part, ...]:
        """The parts that have a number, in its order, which begins with one."""
        return tuple(part for part in self.parts if part.name)


def compared(before: GpuDrawing, after: GpuDrawing) -> tuple[GpuDrawing, GpuDrawing]:
    """Both with their differences marked: what goes in the first, what comes in the second.

    A part stays if there is one of its profile at its place. A part of the same profile at another
    place has moved, where it is the same vGPU or GPU instance; the others are removed and new.
    Where places are not known, the same vGPU or GPU instance stays.
    """
    old, new = list(before.occupied), list(after.occupied)
    moved: list[tuple[Part, Part]] = []
    if before.placed and after.placed:
        _pairs(old, new, lambda part: (part.name, part.start))
        moved = _pairs(old, new, lambda part: (part.name, _identity(part)))
    else:
        _pairs(old, new, lambda part: (part.name, _identity(part)))
    changes_old = {id(part): Change.REMOVED for part in old}
    changes_new = {id(part): Change.NEW for part in new}
    for was, now in moved:
        changes_old[id(was)] = changes_new[id(now)] = Change.MOVED
    return _marked(before, changes_old), _marked(after, changes_new)


def _identity(part: Part) -> Hashable:
    """What makes a part the same in both states; None: nothing."""
    names = tuple(one.name.text for one in part.vgpus if one.name.text)
    return names or part.id


def _pairs(
    old: list[Part], new: list[Part], key: Callable[[Part], tuple[str, Hashable]]
) -> list[tuple[Part, Part]]:
    """Parts with the same key, taken out of both lists."""
    waiting: defaultdict[tuple[str, Hashable], list[Part]] = defaultdict(list)
    for part in new:
        waiting[key(part)].append(part)
    found = [
        (part, waiting[key(part)].pop(0))
        for part in old
        if key(part)[1] is not None and waiting[key(part)]
    ]
    gone = {id(part) for pair in found for part in pair}
    for parts in (old, new):
        parts[:] = [part for part in parts if id(part) not in gone]
    return found


def _marked(drawing: GpuDrawing, changes: dict[int, Change]) -> GpuDrawing:
    parts = tuple(
        msgspec.structs.replace(part, change=changes.get(id(part), Change.NONE))
        for part in drawing.parts
    )
    return msgspec.structs.replace(drawing, parts=parts)


def numbers(parts: Sequence[Part]) -> list[int]:
    """The number of each part; 0 for those that are free."""
    found, count = [], 0
    for part in parts:
        count += bool(part.name)
        found.append(count if part.name else 0)
    return found
