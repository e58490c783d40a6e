"""Whose desired states go where once cards have got other addresses.

Objects are named for addresses, and a desired state is made for a card. A card that is inserted
gives those behind it other addresses at the next boot, and then every desired state follows its
card, which its UUID identifies. A card has its virtual functions at the same distances in any slot,
so the desired states for them follow as well, whether or not the functions are there yet.

No desired state is lost by that, and none comes to a card that it was not made for: a desired state
goes only where nothing is desired, where that leaves as well, or where it was meant for a card that
has certainly gone. As long as one card cannot be identified, none has. Everything else waits.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from laneway.core.pci import PciAddress

Kind = Literal["SRIOVGPUDevice", "VGPUDevice", "MigConfiguration"]


class DesiredOn(msgspec.Struct, frozen=True):
    """That something is desired of the GPU at an address."""

    address: PciAddress
    card: str
    """UUID of the card for which it is desired; empty when it was never known."""


class Move(NamedTuple):
    """A card that was at one address and is at another."""

    card: str
    before: PciAddress
    after: PciAddress


class DesiredState(msgspec.Struct, frozen=True):
    """The desired state of one object."""

    kind: Kind
    gpu: PciAddress
    address: PciAddress
    """Of the function that the object is named for."""
    spec: dict[str, object] = {}
    """Every field, but not those that say where it is."""
    status: dict[str, object] = {}
    """What is remembered along with it; all else in a status speaks of another place."""
    note: str | None = None
    """Who requested it, as its annotation says (`core.requested`)."""


class Gone(msgspec.Struct, frozen=True):
    """An object in whose place nothing comes."""

    kind: Kind
    name: str
    uid: str


class Renumbering(msgspec.Struct, frozen=True):
    """Everything that is to be written for some moves, as a journal keeps it."""

    moves: tuple[Move, ...]
    put: tuple[DesiredState, ...]
    gone: tuple[Gone, ...]
    given_up: dict[str, str] = {}
    """Cards that are gone, of which something was desired where another card is now."""


class Carried(NamedTuple):
    """What is desired after moves, as far as that differs from before."""

    put: tuple[DesiredState, ...]
    gone: tuple[DesiredState, ...]
    """Nothing comes in the place of these."""


def moves(
    desired: Iterable[DesiredOn],
    identities: Mapping[PciAddress, str],
    unreported: Collection[PciAddress],
) -> tuple[Move, ...]:
    """The cards whose desired states can follow them now.

    `unreported`: GPUs that are there, whose identity is not known.
    """
    here = {one.address: one for one in desired}
    times = Counter(one.card for one in here.values())
    places = {card: address for address, card in identities.items()}
    found = {
        one.address: Move(one.card, one.address, places[one.card])
        for one in here.values()
        # Of two claims to one card neither is known to be right, unless the card is at one.
        if times[one.card] == 1 and places.get(one.card, one.address) != one.address
    }

    def is_free(address: PciAddress) -> bool:
        if address not in here or address in found:
            return True
        card = here[address].card
        return card != "" and card not in places and not unreported

    while blocked := [move.before for move in found.values() if not is_free(move.after)]:
        for address in blocked:
            del found[address]  # What was to come in its place cannot either.
    return tuple(found[address] for address in sorted(found))


def carry(moved: Iterable[Move], desired_states: Iterable[DesiredState]) -> Carried:
    """What becomes of desired states when cards move."""
    moved = tuple(moved)
    by_source = {move.before: move for move in moved}
    concerned = by_source.keys() | {move.after for move in moved}
    affected = [desired for desired in desired_states if desired.gpu in concerned]
    put = {}
    for desired in affected:
        move = by_source.get(desired.gpu)
        if move is None:
            continue
        with contextlib.suppress(ValueError):  # No bus has room for such a function.
            there = desired.address.shifted(move.before, move.after)
            put[desired.kind, there] = msgspec.structs.replace(
                desired, gpu=move.after, address=there
            )
    gone = (desired for desired in affected if (desired.kind, desired.address) not in put)
    return Carried(tuple(put.values()), tuple(gone))
