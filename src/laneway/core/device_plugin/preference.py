"""Which of the free devices the kubelet should best take.

Any free device would do, but what is left over should be of use to the next one. So devices are
packed: onto one NUMA node, there onto one card, there into whole IOMMU groups. Where several
places hold all that is requested, the fullest is taken, so that empty cards stay whole for those
who want many vGPUs of one, or the card as it is. Where none does, the one with most room is taken,
so that few are needed. Places of devices that must be taken anyway come first.

Of vGPUs on GPUs in mixed-size mode, that one is taken which costs vGPUs of all sizes the least
room, if the free ones of its profile are removed (`core/packing`). It goes before fullness: the
fullest GPU may be one whose last place for a large vGPU would be broken.

Total for any input: what is not said to be free is never chosen, and an odd request gets as much
of what it requests as there is. The same input always gives the same choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from laneway.core.device_plugin.offer import Offer, Seat
from laneway.core.packing.seats import Costs, costs

_Key = tuple[int | str, ...]
"""Tells a place from others of its level, and puts them in order."""


class _Place(NamedTuple):
    """Where a device is. Cards that share a group count as one card, as its first one."""

    node: _Key
    card: _Key
    group: _Key


class _Site(NamedTuple):
    places: Mapping[str, _Place]
    near: tuple[frozenset[_Key], ...]
    """Nodes, cards and groups of devices that are taken anyway."""
    held: Counter[_Key]
    """How many devices of each card cannot be had any more."""
    costs: Mapping[_Key, Costs]
    """Of each card the vGPUs in the order in which they are best taken, and what each costs."""
    turns: Mapping[str, int]
    """When each vGPU is best taken, among those of its card."""


_Rank = Callable[[_Site, _Key, Collection[str], int], tuple[float, ...]]
"""How good a place with these free devices is for so many: the lowest is best."""


def prefer(
    offers: Mapping[str, Offer], available: Sequence[str], must: Sequence[str], size: int
) -> tuple[str, ...]:
    """So many of the available ids, those first that must be among them."""
    free = {*available}
    chosen = [one for one in dict.fromkeys(must) if one in free][: max(size, 0)]
    places = _places(offers, free)
    free.difference_update(chosen)
    healthy = {one for one in free if one in offers and not offers[one].unhealthy}
    for pool in (healthy, free - healthy):
        near = tuple(
            frozenset(places[one][level] for one in chosen) for level in (_NODE, _CARD, _GROUP)
        )
        held = Counter(place.card for one, place in places.items() if one not in pool)
        need = min(size - len(chosen), len(pool))
        taking = _costs(offers, places, pool)
        turns = {one: turn for order in taking.values() for turn, one in enumerate(order)}
        chosen += _pack(_Site(places, near, held, taking, turns), pool, need, _LEVELS)
    return tuple(chosen)


def _pack(
    site: _Site, pool: Collection[str], need: int, levels: Sequence[tuple[int, _Rank]]
) -> list[str]:
    """So many devices of the pool, which has them, from few places of the first level."""
    if not levels:
        return sorted(pool)[:need]
    level, rank = levels[0]
    rooms = _rooms(site, pool, level)
    taken: list[str] = []
    while len(taken) < need:
        rest = need - len(taken)
        ranks = {place: rank(site, place, room, rest) for place, room in rooms.items()}
        room = rooms.pop(min(rooms, key=lambda place: (ranks[place], place)))
        taken += _pack(site, room, min(rest, len(room)), levels[1:])
    return taken


def _node(site: _Site, node: _Key, room: Collection[str], need: int) -> tuple[float, ...]:
    if len(room) < need:
        return (node not in site.near[_NODE], 1, -len(room))
    cards = _rooms(site, room, _CARD).items()
    return (node not in site.near[_NODE], 0, *min(_card(site, *one, need) for one in cards))


def _card(site: _Site, card: _Key, room: Collection[str], need: int) -> tuple[float, ...]:
    if len(room) < need:
        return (card not in site.near[_CARD], 1, -len(room))
    lost = sum([*site.costs.get(card, {}).values()][:need])
    return (card not in site.near[_CARD], 0, lost, -site.held[card], len(room))


def _group(site: _Site, group: _Key, room: Collection[str], need: int) -> tuple[float, ...]:
    """The largest that is used up, else the smallest."""
    turn = min(site.turns.get(one, 0) for one in room)
    if len(room) > need:
        return (group not in site.near[_GROUP], 1, turn, len(room))
    return (group not in site.near[_GROUP], 0, turn, -len(room))


_NODE, _CARD, _GROUP = range(len(_Place._fields))
_LEVELS: Sequence[tuple[int, _Rank]] = ((_NODE, _node), (_CARD, _card), (_GROUP, _group))


def _costs(
    offers: Mapping[str, Offer], places: Mapping[str, _Place], pool: Collection[str]
) -> Mapping[_Key, Costs]:
    """Nothing unless they are known of the whole pool: others could not be compared with them."""
    if not pool or any(one not in offers or offers[one].seat is None for one in pool):
        return {}
    cards: dict[_Key, dict[str, Seat]] = {}
    for one, offer in offers.items():
        if offer.seat is not None:
            cards.setdefault(places[one].card, {})[one] = offer.seat
    return {card: costs(seats, pool) for card, seats in cards.items()}


def _rooms(site: _Site, pool: Iterable[str], level: int) -> dict[_Key, list[str]]:
    """The pool by where it is."""
    rooms: dict[_Key, list[str]] = {}
    for one in pool:
        rooms.setdefault(site.places[one][level], []).append(one)
    return rooms


def _places(offers: Mapping[str, Offer], available: Collection[str]) -> dict[str, _Place]:
    first: dict[int | None, Offer] = {}
    for one, offer in offers.items():
        if offer.group not in first or one < first[offer.group].id:
            first[offer.group] = offer
    unknown: _Key = (1,)
    places = {one: _Place(unknown, (1, one), (1, one)) for one in available if one not in offers}
    for one, offer in offers.items():
        lead = offer if offer.group is None else first[offer.group]
        places[one] = _Place(
            unknown if lead.numa_node is None else (0, lead.numa_node),
            (1, lead.id) if lead.card is None else (0, *lead.card),
            (1, one) if offer.group is None else (0, offer.group),
        )
    return places
