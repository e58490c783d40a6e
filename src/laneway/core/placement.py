"""Which vGPUs a time-sliced card takes together, and in which order they must be made.

In same-size mode all vGPUs have one framebuffer size and their number alone counts. In mixed-size
mode each takes a run of memory slots, one GiB each, that begins at one of a few places that the
driver has fixed for its size. The driver takes the lowest free place, and nobody can ask for
another, so what fits depends on the order. An answer here is therefore an order in which the driver
itself ends with everything placed; "does not fit" means that no order does.

Where the catalogue knows the places of a board they are taken from it. For a board that is new to
it they follow from the rules: before Blackwell by halving the memory again and again, since then
by dividing it evenly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from laneway.core.profiles import MIB_PER_GIB, Profile, profile, profiles_on

MOST_TIME_SLICED = 32
"""vGPUs on one card, whatever their size."""

_SMALLEST_PART = 16
"""Halving stops at one sixteenth of the card."""

_BLACKWELL = 0x2900
"""The first PCI device id of cards that divide evenly."""


class Kind(msgspec.Struct, frozen=True):
    """A profile as far as room matters."""

    name: str
    framebuffer_mib: int
    slots: int
    maximum: int
    """In same-size mode."""
    ids: tuple[int, ...]
    """First slots of its places in mixed-size mode, ascending."""


class Card(msgspec.Struct, frozen=True):
    """The profiles of a board by name, and its memory."""

    region: int
    """Slots."""
    kinds: dict[str, Kind]


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


# ------------------------------------------------------------------------------ places by rule


def halved_ids(
    region: int, slots: int, maximum: int, denied: frozenset[int] = frozenset()
) -> tuple[int, ...]:
    """Places before Blackwell. The maximum falls to a power of two."""
    power = 1 << (maximum.bit_length() - 1)
    found: set[int] = set()
    parts = [(0, region, True)]
    count = 1
    while count <= _SMALLEST_PART:
        for low, high, left in parts:
            if 2 * count == maximum:
                found |= {low, high - slots}
            elif (power < maximum and count == power) or count == maximum == 1:
                found.add(low if left else high - slots)
        parts = [
            half
            for low, high, _ in parts
            for half in ((low, (low + high) // 2, True), ((low + high) // 2, high, False))
        ]
        count *= 2
    return tuple(sorted(found - denied))


def even_ids(region: int, maximum: int) -> tuple[int, ...]:
    """Places since Blackwell, also inside a GPU instance."""
    return tuple(region * index // maximum for index in range(maximum))


def denied_ids(*, gsp: bool) -> frozenset[int]:
    """Places that boards of 48 GB keep from 1 GB profiles; `gsp`: with a GPU system processor."""
    if gsp:
        return frozenset({2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 38, 39, 44, 45})
    return frozenset({8, 32})


# ------------------------------------------------------------------------------------- the card


def card_of(device: str, names: Iterable[str] = (), *, complete: bool = False) -> Card:
    """A board by PCI device id (`25b6`), together with the profiles that its driver lists.

    What the driver lists wins: its profiles are part of the card whether or not the catalogue has
    them, and where it lists any of a board, other boards with the same id are left out. `complete`:
    the list is all that the driver can do, so the catalogue adds none.
    """
    return _card_of(device, frozenset(names), complete=complete)


@lru_cache(maxsize=64)
def _card_of(device: str, names: frozenset[str], *, complete: bool) -> Card:
    listed = [one for one in map(profile, sorted(names)) if one is not None]
    boards = {one.board for one in listed}
    known = [one for one in profiles_on(device) if not boards or one.board in boards]
    every = {one.name: one for one in (*known, *listed) if not one.mig_backed}
    region = max((one.framebuffer_mib for one in every.values()), default=0) // MIB_PER_GIB
    even = _is_blackwell(device)
    return Card(
        region,
        {
            name: _kind(one, region, even=even)
            for name, one in every.items()
            if not complete or name in names
        },
    )


def _is_blackwell(device: str) -> bool:
    try:
        return int(device, 16) >= _BLACKWELL
    except ValueError:
        return False


def _kind(one: Profile, region: int, *, even: bool) -> Kind:
    slots = max(1, -(-one.framebuffer_mib // MIB_PER_GIB))
    maximum = one.maximum or max(1, min(MOST_TIME_SLICED, region // slots))
    if even and maximum > 1:
        # Where fewer are supported than the size allows, each takes an equal share all the same:
        # 2 GB on a card of 96 GB take three slots.
        slots = max(slots, region // maximum if maximum == MOST_TIME_SLICED else slots)
    rule = even_ids(region, maximum) if even else halved_ids(region, slots, maximum)
    return Kind(one.name, one.framebuffer_mib, slots, maximum, one.ids or rule)


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


def _room(shape: _Shape, used: int) -> int:
    """How many vGPUs of a shape still fit when no others come."""
    count = 0
    for _, bits in shape:
        if not bits & used:
            used |= bits
            count += 1
    return count


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
    """In which order to make vGPUs beside those that are there; None when they do not fit.

    Every profile wanted must be one of the card's.
    """
    rule = _mixed_size if mixed else _same_size
    return rule(card, tuple(carried), {name: count for name, count in wanted.items() if count})


def creatable(card: Card, carried: Iterable[Carried], *, mixed: bool) -> tuple[str, ...]:
    """The profiles of which the driver would make one more now, sorted by name."""
    there = tuple(carried)
    return tuple(
        name for name in sorted(card.kinds) if arrange(card, there, {name: 1}, mixed=mixed)
    )


def capacity(card: Card, carried: Iterable[Carried], *, mixed: bool) -> dict[str, int]:
    """How many more of each profile fit, each taken alone; profiles without room are left out."""
    there = tuple(carried)
    left = MOST_TIME_SLICED - len(there)
    used = _occupied(card, there) if mixed else 0
    found = {}
    for name in sorted(card.kinds):
        kind = card.kinds[name]
        if mixed:
            room = min(left, _room(_shape(kind), used))
        elif arrange(card, there, {name: 1}, mixed=False):
            room = kind.maximum - len(there)
        else:
            room = 0
        if room > 0:
            found[name] = room
    return found


def shortage(
    card: Card, carried: Iterable[Carried], wanted: Mapping[str, int], *, mixed: bool
) -> tuple[str, int] | None:
    """The first profile of a wish that does not fit beside those before it, and how many would."""
    there = tuple(carried)
    so_far: Counter[str] = Counter()
    for name, count in wanted.items():
        if arrange(card, there, so_far + Counter({name: count}), mixed=mixed) is None:
            fits = (
                fewer
                for fewer in range(count - 1, 0, -1)
                if arrange(card, there, so_far + Counter({name: fewer}), mixed=mixed) is not None
            )
            return name, next(fits, 0)
        so_far[name] += count
    return None
