"""The UUIDs of mediated devices."""

from __future__ import annotations

import uuid

from msgspec.structs import replace

from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.vgpu.desired import mdev_uuid, own_uuids

CARD = "GPU-11111111-2222-3333-4444-555555555555"
UNKNOWN = VgpuFunction(
    address=PciAddress.parse("0000:08:00.7"),
    parent=PciAddress.parse("0000:08:00.0"),
    framework="mdev",
    supported=(),
    creatable=(),
)
KNOWN = replace(UNKNOWN, card=CARD, number=3)


def test_the_uuid_follows_the_card_to_another_slot() -> None:
    there = replace(
        KNOWN,
        address=PciAddress.parse("0000:09:00.7"),
        parent=PciAddress.parse("0000:09:00.0"),
    )

    assert mdev_uuid("node1", there) == mdev_uuid("node1", KNOWN)
    assert uuid.UUID(mdev_uuid("node1", KNOWN)).version == 5


def test_everything_else_has_another() -> None:
    others = (
        replace(KNOWN, number=4),
        replace(KNOWN, card=CARD.replace("1", "7")),
        replace(KNOWN, number=None),
        UNKNOWN,
    )

    taken = {mdev_uuid("node1", one) for one in others} | {mdev_uuid("node2", KNOWN)}
    assert mdev_uuid("node1", KNOWN) not in taken


def test_the_uuid_that_an_older_version_gave_counts_as_ours() -> None:
    assert own_uuids("node1", KNOWN) == (
        mdev_uuid("node1", KNOWN),
        mdev_uuid("node1", UNKNOWN),
    )
