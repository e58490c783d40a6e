"""What it costs to take vGPUs that exist: the room that their GPU has less while they are held.

Free vGPUs of the profile count as room, because they can be removed. Those of other profiles count
as held: whether they are free, the device plugin of this profile does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache, reduce

from laneway.core.device_plugin.offer import Seat
from laneway.core.packing.policy import loss
from laneway.core.packing.room import Board, Room, bits_of, board_of, with_one
from laneway.core.vgpu.card import Kind, card_of

Costs = Mapping[str, float]
"""By device id, in the order in which they are best taken: what each costs after those before."""


def costs(seats: Mapping[str, Seat], free: Collection[str]) -> Costs:
    """Of those that are free, among the vGPUs of one profile on one GPU."""
    found: dict[str, float] = {}
    if not seats:
        return found
    device = next(iter(seats.values())).device
    names = {name for seat in seats.values() for name in (seat.profile, *dict(seat.others))}
    board, kinds = _board(device, frozenset(names))
    places = {one: _bits(kinds, seat.profile, seat.start) for one, seat in seats.items()}
    taken = {_bits(kinds, *other) for seat in seats.values() for other in seat.others}
    taken |= {bits for one, bits in places.items() if one not in free}
    room = reduce(with_one, taken, Room())
    rest = sorted(one for one in seats if one in free)
    while rest:
        after = {one: with_one(room, places[one]) for one in rest}
        lost = {one: loss(board, room, after[one]) for one in rest}
        best = min(rest, key=lambda one: (lost[one], places[one], one))
        found[best] = lost[best]
        room = after[best]
        rest.remove(best)
    return found


def _bits(kinds: Mapping[str, Kind], profile: str, start: int) -> int:
    return bits_of(kinds[profile], start) if profile in kinds else 0


@lru_cache(maxsize=64)
def _board(device: str, names: frozenset[str]) -> tuple[Board, Mapping[str, Kind]]:
    card = card_of(device, names)
    return board_of(card, mixed=True), card.kinds
