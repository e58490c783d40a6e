"""Which devices of a node exclude each other, as counters that a scheduler keeps.

Two things can only be given out once, whatever forms they take:

- an IOMMU group: its devices all go to one pod, so each takes the only unit of `exclusive`;
- a card: a part of it (a VF, a vGPU) takes one of its `parts`, and the whole card takes them all.

No device then needs more than two sets of counters, which is all that Kubernetes allows. What
nothing else shares has no counters. Where a server keeps none, of devices that exclude each other
only one is published at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.pci import PciAddress


class CounterSet(msgspec.Struct, frozen=True):
    """What some devices share."""

    name: str
    counters: Mapping[str, int]


class Sharing(msgspec.Struct, frozen=True):
    """All counters, and what each offer takes of them, in the order of the offers."""

    sets: tuple[CounterSet, ...]
    consumed: tuple[tuple[CounterSet, ...], ...]


def sharing(offers: Sequence[Offer]) -> Sharing:
    """The counters of these offers."""
    groups: dict[int, list[int]] = defaultdict(list)
    cards: dict[PciAddress, list[int]] = defaultdict(list)
    for index, offer in enumerate(offers):
        if offer.group is not None:
            groups[offer.group].append(index)
        if offer.card is not None:
            cards[offer.card].append(index)
    sets: list[CounterSet] = []
    consumed: list[list[CounterSet]] = [[] for _ in offers]
    for group, members in sorted(groups.items()):
        if len(members) > 1:
            name = f"group-{group}"
            sets.append(CounterSet(name, {"exclusive": 1}))
            for index in members:
                consumed[index].append(sets[-1])
    for card, members in sorted(cards.items()):
        parts = [index for index in members if not is_whole(offers[index])]
        wholes = len(members) - len(parts)
        if not wholes or len(members) == 1:
            continue
        name = "card-" + str(card).replace(":", "-").replace(".", "-")
        total = max(1, len(parts))
        sets.append(CounterSet(name, {"parts": total}))
        for index in members:
            taken = total if is_whole(offers[index]) else 1
            consumed[index].append(CounterSet(name, {"parts": taken}))
    return Sharing(tuple(sets), tuple(tuple(one) for one in consumed))


def is_whole(offer: Offer) -> bool:
    """Whether it is a card, and not a part of one: old cards make parts on their own function."""
    return offer.form is Form.PCI and offer.card == offer.address


def alone(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers without those that one before them excludes."""
    kept: list[Offer] = []
    for offer in offers:
        if not any(exclude(offer, other) for other in kept):
            kept.append(offer)
    return tuple(kept)


def exclude(one: Offer, other: Offer) -> bool:
    """Whether at most one of two devices can be given out."""
    if one.group is not None and one.group == other.group:
        return True
    same_card = one.card is not None and one.card == other.card
    return same_card and (is_whole(one) or is_whole(other))
