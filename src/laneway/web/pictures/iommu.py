"""The IOMMU groups of a node as a map: one box for each group, and a card with its devices.

A node may have some hundred groups. Boxes and cards are HTML in a grid, because that breaks into
lines at any width and zoom, and each box is a link to its card.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec
from markupsafe import Markup

from laneway.api import PCIDevice, PCIDeviceClaim, find_condition
from laneway.controllers.devices.holder import holder
from laneway.web.pictures.drawing import Named, Say
from laneway.web.pictures.legend import named
from laneway.web.pictures.marks import clean

_LONGEST = 500


class Use(StrEnum):
    """What is with a device or with a whole group, what matters most first."""

    CRITICAL = "critical"
    """The node cannot do without it."""
    BLOCKED = "blocked"
    """It cannot be claimed for another reason."""
    HELD = "held"
    """Claimed, and allocated to a VM or pod."""
    CLAIMED = "claimed"
    CLAIMABLE = "claimable"
    UNKNOWN = "unknown"
    """No agent has judged it yet."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a group."""

    name: Named
    """Its address."""
    description: str = ""
    driver: str = ""
    use: Use = Use.UNKNOWN
    why: str = ""
    """Why it is not claimable, or its holder."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """An IOMMU group; the number is empty for devices that have none."""

    number: str
    members: tuple[Member, ...]

    @property
    def use(self) -> Use:
        """A group is claimed as a whole: what is with the worst of its devices counts."""
        found = {member.use for member in self.members}
        return next((use for use in Use if use in found), Use.UNKNOWN)


def groups_of(
    devices: Iterable[PCIDevice],
    claims: Iterable[PCIDeviceClaim] = (),
    *,
    href: Callable[[PCIDevice], str],
) -> tuple[Group, ...]:
    """The groups of the devices of one node, by number. `href`: the page of a device."""
    claimed = {claim.spec.address: claim for claim in claims}
    members: defaultdict[str, list[Member]] = defaultdict(list)
    for device in sorted(devices, key=lambda one: one.status.address):
        found = _member(device, claimed.get(device.status.address), href(device))
        group = device.status.iommu_group
        members[group if group.isdecimal() else ""].append(found)
    return tuple(
        Group(number=number, members=tuple(members[number]))
        for number in sorted(members, key=lambda number: (not number, len(number), number))
    )


def _member(device: PCIDevice, claim: PCIDeviceClaim | None, href: str) -> Member:
    status, why = device.status, ""
    if claim is not None:
        has = holder(claim.status.allocation)
        use, why = (Use.HELD, has) if has else (Use.CLAIMED, claim.spec.user_name)
    elif status.critical:
        use, why = Use.CRITICAL, "; ".join(status.critical)
    elif status.claimable is None:
        use = Use.UNKNOWN
    elif status.claimable:
        use = Use.CLAIMABLE
    else:
        said = find_condition(status.conditions, "Claimable")
        use, why = Use.BLOCKED, said.message if said is not None else ""
    return Member(
        name=Named(status.address, href),
        description=status.description,
        driver=status.kernel_driver_in_use,
        use=use,
        why=why,
    )


def iommu_map(groups: Iterable[Group], *, ids: str, say: Say) -> Markup:
    """The key with numbers, the map and the cards. `ids` begins every id in it."""
    every = list(groups)
    count = Counter(group.use for group in every)
    key = Markup("").join(
        Markup(
            '<li><span class="map-box map-{}" aria-hidden="true"></span>{} <b>{:,}</b></li>'
        ).format(use.value, say(f"pictures.use_{use.value}"), count[use])
        for use in Use
        if count[use]
    )
    boxes = Markup("").join(_box(group, ids, say) for group in every)
    cards = Markup("").join(_card(group, ids, say) for group in every)
    return Markup(
        '<div class="pic map"><ul class="pic-key" role="list">{}</ul>'
        '<ul class="map-boxes" role="list">{}</ul><ul class="map-cards" role="list">{}</ul></div>'
    ).format(key, boxes, cards)


def _box(group: Group, ids: str, say: Say) -> Markup:
    number = clean(group.number) or "-"
    words = f"{_name(group, say)}, {say(f'pictures.use_{group.use.value}')}"
    return Markup('<li><a class="map-box map-{}" href="#{}-{}" aria-label="{}">{}</a></li>').format(
        group.use.value, ids, clean(group.number) or "none", words, number
    )


def _card(group: Group, ids: str, say: Say) -> Markup:
    members = Markup("").join(_line(member, say) for member in group.members)
    return Markup(
        '<li class="map-card map-card-{}" id="{}-{}"><p class="map-name"><b>{}</b> '
        '<span class="map-use">{}</span></p><ul role="list">{}</ul></li>'
    ).format(
        group.use.value,
        ids,
        clean(group.number) or "none",
        _name(group, say),
        say(f"pictures.use_{group.use.value}"),
        members,
    )


def _name(group: Group, say: Say) -> str:
    if not group.number:
        return say("pictures.no_group")
    return say("pictures.group", number=clean(group.number))


def _line(member: Member, say: Say) -> Markup:
    state = say(f"pictures.use_{member.use.value}")
    why = f"{state}: {clean(member.why, _LONGEST)}" if member.why else state
    driver = (
        Markup('<span class="pic-fact">{}</span>').format(clean(member.driver))
        if member.driver
        else ""
    )
    return Markup(
        '<li>{}{}<span class="pic-fact">{}</span><span class="map-what">{}</span></li>'
    ).format(named(member.name), driver, why, clean(member.description, _LONGEST))
