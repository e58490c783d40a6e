"""What one more vGPU costs on a GPU, told from the vGPUs that stay there.

The score is that of the policy, so nodes, GPUs and places compare as they do in a simulation. It
compares any two GPUs on which a profile can be: an empty GPU in same-size mode costs what it can no
longer carry, as a broken place in mixed-size mode does.

Of vGPUs in GPU instances no room is known: the GPU with the most comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import zip_longest

import msgspec

from laneway.core.packing.policy import Score, aware
from laneway.core.packing.room import Board, Room, board_of, spots
from laneway.core.vgpu.card import Card, Kind, card_of
from laneway.core.vgpu.placement import Carried, are_mixed
from laneway.core.vgpu.profiles import framebuffer_mib

_MIB_PER_GIB = 1024


class Gpu(msgspec.Struct, frozen=True):
    """A GPU as far as packing looks at it."""

    device: str
    """PCI device id: `26b9`."""
    profiles: tuple[str, ...]
    """What its driver lists; empty: what the catalogue has."""
    mixed: bool
    """Whether its vGPUs may differ in size."""


@lru_cache(maxsize=1 << 16)
def cost(gpu: Gpu, there: tuple[Carried, ...], one: Carried) -> Score:
    """What one more vGPU costs next to those that stay; the lowest is best.

    `one`: without a place where the driver is to choose it.
    """
    card = card_of(gpu.device, gpu.profiles)
    kind = card.kinds.get(one.profile)
    if kind is None:
        return 0.0, -sum(framebuffer_mib(each.profile) for each in there) / _MIB_PER_GIB
    mixed = gpu.mixed or are_mixed(card, there)
    board = _board(gpu.device, gpu.profiles, mixed)
    before = room_on(board, card.kinds, there)
    return aware(board, before, _with(board, before, kind, one.start))


def best(
    gpu: Gpu, there: Iterable[Carried], free: Iterable[Carried], count: int = 1
) -> tuple[tuple[int, ...], Score]:
    """Which of the free vGPUs of one profile are best taken, by index, and what they cost together.

    As many as there are, if they are fewer.
    """
    held = tuple(there)
    rest = dict(enumerate(free))
    chosen: list[int] = []
    scores: list[Score] = []
    while rest and len(chosen) < count:
        prices = {index: cost(gpu, held, one) for index, one in rest.items()}
        index = min(rest, key=lambda index: (prices[index], _place(rest[index]), index))
        chosen.append(index)
        scores.append(prices[index])
        held = in_order((*held, rest.pop(index)))
    return tuple(chosen), total(scores)


def total(scores: Iterable[Score]) -> Score:
    """What several cost together."""
    return tuple(map(sum, zip_longest(*scores, fillvalue=0.0)))


def in_order(vgpus: Iterable[Carried]) -> tuple[Carried, ...]:
    """The same for GPUs that carry the same."""
    found = tuple(vgpus)
    if len(found) < 2 or found.count(found[0]) == len(found):
        return found
    return tuple(sorted(found, key=lambda one: (one.profile, _place(one))))


def _place(one: Carried) -> int:
    return -1 if one.start is None else one.start


@lru_cache(maxsize=1024)
def _board(device: str, profiles: tuple[str, ...], mixed: bool) -> Board:
    return board_of_card(card_of(device, profiles), mixed=mixed)


def board_of_card(card: Card, *, mixed: bool) -> Board:
    """The same board for all cards that are alike: what is left on it is worked out once."""
    board = board_of(card, mixed=mixed)
    return _one(board.region, board.kinds, mixed)


@lru_cache(maxsize=256)
def _one(region: int, kinds: tuple[Kind, ...], mixed: bool) -> Board:
    return Board(region, kinds, mixed)


def room_on(board: Board, kinds: Mapping[str, Kind], there: Iterable[Carried]) -> Room:
    """What is taken. Those whose place is not known are where the driver puts them after others."""
    room = Room()
    for one in sorted(there, key=lambda one: (one.start is None, _place(one))):
        kind = kinds.get(one.profile)
        if kind is None:
            room = room._replace(number=room.number + 1)
        else:
            room = _with(board, room, kind, one.start)
    return room


def _with(board: Board, room: Room, kind: Kind, start: int | None) -> Room:
    """One more, which is there even where there seems to be no room for it."""
    for spot in spots(board, room, board.size_of(kind)):
        if start in (None, spot.start) or not board.mixed:
            return spot.after
    return room._replace(number=room.number + 1)
