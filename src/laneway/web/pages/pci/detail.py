"""One PCI device: its group, its claim, its holders, and its hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from laneway.api import PCIDevice
from laneway.views.gpus import staleness
from laneway.web.caches import Change
from laneway.web.claiming import change
from laneway.web.claiming.family import claiming, refused
from laneway.web.claiming.rows import Row, load_users, speaks_of, users, why
from laneway.web.page import Context, NotFound, Page
from laneway.web.pages.pci import facts
from laneway.web.pages.pci.family import FAMILY, members_of, row_of, stays
from laneway.web.pages.pci.listing import LIST, LIST_CLAIMS, address_of, card_of, gpu_of
from laneway.web.place import link
from laneway.web.visit import Visit

KINDS_READ = frozenset({"pci", "claims", "usb_claims", "vms", "instances", "nodes"})


class Member(NamedTuple):
    """A device of the IOMMU group."""

    row: Row
    is_this: bool
    stays: bool


def _named(visit: Visit) -> Row:
    row = row_of(visit.caches, visit.name("name"))
    if row is None:
        raise NotFound(visit.name("name"))
    return row


def _context(visit: Visit) -> Context:
    row = _named(visit)
    members = members_of(visit, row)
    free = [one for one in members if one.claim is None and not stays(one)]
    claimed = [one for one in members if one.claim is not None and not stays(one)]
    return {
        "title": f"{row.node}/{address_of(row)}",
        "row": row,
        "stale": staleness(visit.caches.nodes.store.get(row.node)),
        "why": why,
        "members": [Member(one, one.name == row.name, stays(one)) for one in members],
        "claim_url": change.address_of(FAMILY, "claim", [row]),
        "group_claim_url": change.address_of(FAMILY, "claim", free) if len(free) > 1 else "",
        "group_release_url": change.address_of(FAMILY, "release", claimed)
        if len(claimed) > 1
        else "",
        "release_url": change.address_of(FAMILY, "release", [row]),
        "against": refused(visit, row, release=row.claim is not None),
        "remarks": claiming(visit, row).warnings if row.device and row.claim is None else (),
        "users": users(visit, row),
        "claim_facts": list(facts.of_claim(visit, row.claim)),
        "facts": list(facts.of_device(visit, row.device)),
        "pooling_url": link("pci", row.name, "resource"),
        "gpu": gpu_of(row),
        "card": card_of(row),
        "concerns": _concerns(row),
    }


def _concerns(row: Row) -> Callable[[Change], bool]:
    """What belongs to the device, its group, or those that could hold it."""
    group = row.device.status.iommu_group if isinstance(row.device, PCIDevice) else ""
    named = {row.name}

    def shows(change_: Change) -> bool:
        found, name = change_.after or change_.before, change_.key.name
        if change_.kind == "pci":
            status = found.status
            return name in named or bool(
                group and (status.node_name, status.iommu_group) == (row.node, group)
            )
        if change_.kind == "claims":
            return bool(found.spec.node_name == row.node)
        if change_.kind == "usb_claims":
            return bool(found.status.node_name == row.node)
        if change_.kind == "nodes":
            return name == row.node
        return speaks_of(change_, named)

    return shows


async def _prepare(visit: Visit) -> None:
    await load_users(visit, [_named(visit)])


PAGES = (
    Page(
        "/pci/{name}",
        "pci-one.html",
        _context,
        kinds=KINDS_READ,
        needs=(LIST, LIST_CLAIMS),
        asks=FAMILY.rights,
        prepare=_prepare,
    ),
)
