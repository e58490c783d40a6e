"""GPUs in other slots: how a server comes up after its cards were moved.

A card that sits elsewhere has another address at the next boot and is the same card with the same
UUID; no card has virtual functions yet. That is the base of a new host. What was done to the old
one is not replayed on it, for a reboot forgets what was done by address: so a host's log does not
outlive such a change, and the words of `--simulate` have none for it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from laneway.core.pci import PciAddress
from laneway.sim.dump import Block
from laneway.sim.load import iommu_group


class Seat(NamedTuple):
    """The card that sits in a slot."""

    like: PciAddress
    """Where the server has this card, or one of its kind, from the start."""
    serial: str = ""
    """What makes it another one of its kind; empty for that very card."""


class Seated(NamedTuple):
    """What a simulated host is made of."""

    blocks: list[Block]
    serials: dict[str, str]
    """What a card's identity comes from, by path."""


def seated(blocks: Iterable[Block], seats: Mapping[PciAddress, Seat]) -> Seated:
    """A server with these cards, and none of those that it has from the start."""
    blocks = list(blocks)
    cards = {posixpath.basename(block.path): block for block in _cards(blocks)}
    paths = {card.path for card in cards.values()}
    kept = [block for block in blocks if not paths & {block.path, _physical(block)}]
    groups = max((iommu_group(block) or 0 for block in blocks), default=0)
    serials = {}
    for number, (address, seat) in enumerate(sorted(seats.items()), groups + 1):
        card = cards[str(seat.like)]
        slot = cards.get(str(address), card).path.rpartition("/")[0]
        kept.append(_moved(card, f"{slot}/{address}", number))
        serials[kept[-1].path] = f"{card.path} {seat.serial}".strip()
    return Seated(kept, serials)


def _cards(blocks: Iterable[Block]) -> Iterator[Block]:
    """The GPUs that can have virtual functions."""
    for block in blocks:
        if "sriov_vf_device" in block.attributes and block.properties.get("DRIVER") == "nvidia":
            yield block


def _physical(block: Block) -> str:
    physfn = block.links.get("physfn")
    return posixpath.normpath(f"{block.path}/{physfn}") if physfn else ""


def _moved(card: Block, path: str, group: int) -> Block:
    """A card elsewhere, without virtual functions, in an IOMMU group of its own."""
    links = {name: to for name, to in card.links.items() if not name.startswith("virtfn")}
    links["iommu_group"] = f"{posixpath.relpath('/', path)}/kernel/iommu_groups/{group}"
    return replace(
        card,
        path=path,
        properties=card.properties | {"PCI_SLOT_NAME": posixpath.basename(path)},
        attributes=card.attributes | {"sriov_numvfs": b"0\n"},
        links=links,
    )
