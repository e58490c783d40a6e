"""Which vGPUs a time-sliced card takes together, and in which order they must be made.

In same-size mode all vGPUs have one framebuffer size and their number alone counts. In mixed-size
mode the driver takes the lowest free place of a profile, and no other can be requested, so what
fits depends on the order. An answer here is therefore an order in which the driver itself ends with
everything placed; "does not fit" means that no order does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from laneway.core.inventory import VgpuFunction
from laneway.core.vgpu.card import MOST_TIME_SLICED, Card, Kind


class Carried(msgspec.Struct, frozen=True):
    """A vGPU that is there and stays."""

    profile: str
    start: int | None = None
    """Its first slot in mixed-size mode; None where the driver does not tell."""


class Placed(msgspec.Struct, frozen=True):
    """A vGPU that is to be made."""

    profile: str
    start: int | None
    """Where the driver will put it in mixed-size mode."""


def carried_on(functions: Iterable[VgpuFunction]) -> tuple[Carried, ...]:
    """The vGPUs that functions carry."""
    vgpus = (one.configured for one in functions)
    return tuple(Carried(vgpu.type_name, vgpu.placement) for vgpu in vgpus if vgpu)


def are_mixed(card: Card, carried: Iterable[Carried]) -> bool:
    """Whether vGPUs have several sizes, as they can in mixed-size mode alone."""
    kinds = (card.kinds.get(one.profile) for one in carried)
    return len({kind.framebuffer_mib for kind in kinds if kind}) > 1


# ------------------------------------------------------------------------------------- same size


def _same_size(
    card: Card, carried: tuple[Carried, ...], wanted: Mapping[str, int]
) -> tuple[Placed, ...] | None:
    """Profiles with the smaller maximum first: each is checked when it is made, not later."""
    kinds = [card.kinds[name] for name in wanted]
    there = [card.kinds[one.profile] for one in carried if one.profile in card.kinds]
    if len({kind.framebuffer_mib for kind in (*kinds, *there)}) > 1:
        return None
    count, order = len(carried), []
    for kind in sorted(kinds, key=lambda kind: (kind.maximum, kind.name)):
        count += wanted[kind.name]
        if count > kind.maximum:
            return None
        order += [Placed(kind.name, None)] * wanted[kind.name]
    return tuple(order)


# ------------------------------------------------------------------------------------ mixed size

_Place = tuple[int, int]
"""A place: its first slot, and the slots it takes as bits."""
_Shape = tuple[_Place, ...]


@lru_cache(maxsize=1024)
def _shape(kind: Kind) -> _Shape:
    return tuple((start, ((1 << kind.slots) - 1) << start) for start in kind.ids)


def _occupied(card: Card, carried: Iterable[Carried]) -> int:
    """Slots in use, as bits. A vGPU whose place is not known is taken to be at the lowest."""
    used = 0
    unplaced = []
    for one in carried:
        kind = card.kinds.get(one.profile)
        if kind is None:
            continue
        if one.start is None:
            unplaced.append(kind)
        else:
            used |= ((1 << kind.slots) - 1) << one.start
    for kind in unplaced:
        place = _lowest(_shape(kind), used)
        used |= place[1] if place else 0
    return used


def _lowest(shape: _Shape, used: int) -> _Place | None:
    return next((place for place in shape if not place[1] & used), None)


def _mixed_size(
    card: Card, carried: tuple[Carried, ...], wanted: Mapping[str, int]
) -> tuple[Placed, ...] | None:
    """Largest first, which nearly always works; then every other order."""
    if len(carried) + sum(wanted.values()) > MOST_TIME_SLICED:
        return None
    # Profiles of one size (the series differ) are one and the same here.
    sizes: dict[_Shape, list[str]] = {}
    for name in sorted(wanted):
        sizes.setdefault(_shape(card.kinds[name]), []).extend([name] * wanted[name])
    shapes = sorted(sizes, key=lambda shape: -(shape[0][1].bit_count() if shape else 0))
    found = _search(
        tuple(shapes), tuple(len(sizes[shape]) for shape in shapes), _occupied(card, carried)
    )
    if found is None:
        return None
    names = {shape: iter(sizes[shape]) for shape in shapes}
    return tuple(Placed(next(names[shapes[index]]), start) for index, start in found)


def _search(
    shapes: tuple[_Shape, ...], wanted: tuple[int, ...], used: int
) -> tuple[tuple[int, int], ...] | None:
    """An order, as (index of the shape, start), in which taking the lowest place serves all."""
    in_order = _in_order(shapes, wanted, used)
    if in_order is not None:
        return in_order
    failed: set[tuple[tuple[int, ...], int]] = set()

    def go(wanted: tuple[int, ...], used: int) -> list[tuple[int, int]] | None:
        if not any(wanted):
            return []
        # Whether there are places at all, in whatever order, is cheap to tell and nearly decides.
        if (wanted, used) not in failed and _packs(shapes, wanted, used):
            for index, count in enumerate(wanted):
                place = _lowest(shapes[index], used) if count else None
                if place is not None:
                    tail = go(_one_less(wanted, index), used | place[1])
                    if tail is not None:
                        tail.append((index, place[0]))
                        return tail
        failed.add((wanted, used))
        return None

    found = go(wanted, used)
    return None if found is None else tuple(reversed(found))


def _in_order(
    shapes: tuple[_Shape, ...], wanted: tuple[int, ...], used: int
) -> tuple[tuple[int, int], ...] | None:
    """One shape after the other, as they are given; None when that does not serve all."""
    found = []
    for index, count in enumerate(wanted):
        for _ in range(count):
            place = _lowest(shapes[index], used)
            if place is None:
                return None
            used |= place[1]
            found.append((index, place[0]))
    return tuple(found)


def _packs(shapes: tuple[_Shape, ...], wanted: tuple[int, ...], used: int) -> bool:
    """Whether there are places for all at once, going through the card from its first slot."""
    places: dict[int, list[tuple[int, int]]] = {}
    for index, shape in enumerate(shapes):
        if wanted[index]:
            for start, bits in shape:
                if not bits & used:
                    places.setdefault(start, []).append((index, bits.bit_count()))
    starts = sorted(places)
    end = max((start + size for start in starts for _, size in places[start]), default=0)
    failed: set[tuple[int, tuple[int, ...]]] = set()

    def go(slot: int, wanted: tuple[int, ...], need: int) -> bool:
        if not need:
            return True
        at = bisect_left(starts, slot)
        if at == len(starts):
            return False
        slot = starts[at]
        free = end - slot - (used >> slot & ((1 << (end - slot)) - 1)).bit_count()
        if need > free or (slot, wanted) in failed:
            return False
        if any(
            wanted[index] and go(slot + size, _one_less(wanted, index), need - size)
            for index, size in places[slot]
        ) or go(slot + 1, wanted, need):
            return True
        failed.add((slot, wanted))
        return False

    sizes = (shape[0][1].bit_count() if shape else 1 for shape in shapes)
    return go(0, wanted, sum(count * size for count, size in zip(wanted, sizes, strict=True)))


def _one_less(wanted: tuple[int, ...], index: int) -> tuple[int, ...]:
    return (*wanted[:index], wanted[index] - 1, *wanted[index + 1 :])


# --------------------------------------------------------------------------------------- answers


def arrange(
    card: Card, carried: Iterable[Carried], wanted: Mapping[str, int], *, mixed: bool
) -> tuple[Placed, ...] | None:
    """In which order to make vGPUs in addition to those that are there; None when they do not fit.

    Every profile wanted must be one of the card's.
    """
    rule = _mixed_size if mixed else _same_size
    return rule(card, tuple(carried), {name: count for name, count in wanted.items() if count})


def shortage(
    card: Card, carried: Iterable[Carried], wanted: Mapping[str, int], *, mixed: bool
) -> tuple[str, int] | None:
    """The first profile of a spec that does not fit with those before it, and how many would."""
    there = tuple(carried)
    so_far: Counter[str] = Counter()
    for name, count in wanted.items():
        if arrange(card, there, so_far + Counter({name: count}), mixed=mixed) is None:
            fits = (
                fewer
                for fewer in range(min(count - 1, MOST_TIME_SLICED), 0, -1)
                if arrange(card, there, so_far + Counter({name: fewer}), mixed=mixed) is not None
            )
            return name, next(fits, 0)
        so_far[name] += count
    return None


def most(card: Card, carried: Iterable[Carried], name: str, *, mixed: bool) -> int:
    """How many vGPUs of one profile can be made in addition to those that are there.

    The profile must be one of the card's.
    """
    there = tuple(carried)
    kind = card.kinds[name]
    if not mixed:
        sizes = {
            card.kinds[one.profile].framebuffer_mib for one in there if one.profile in card.kinds
        }
        return 0 if sizes - {kind.framebuffer_mib} else max(0, kind.maximum - len(there))
    used, count = _occupied(card, there), 0
    while len(there) + count < MOST_TIME_SLICED and (place := _lowest(_shape(kind), used)):
        used |= place[1]
        count += 1
    return count
