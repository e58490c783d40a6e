"""What the history of holders consists of: who held a device, from when to when.

Only what an agent reported counts as held (`Allocation` of a device). While nothing watches,
nothing is known: that is a gap, and never the same as a device that is free. While the agent of a
node does not report, nothing is known of this node: that is a gap as well. A holder that is the
same before and after a gap is one entry that spans it; otherwise both ends are marked as not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from laneway.core.ledger.facts import Consumer

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")


class Hold(msgspec.Struct, frozen=True):
    """A device with its holder."""

    device: str
    """Of its PCIDevice, VGPUDevice or USBDevice."""
    node: str
    resource: str
    holder: Consumer
    gpu: str = ""
    """The SRIOVGPUDevice that the device is or belongs to."""
    profile: str = ""
    """Of a vGPU."""


class Gap(NamedTuple):
    """A time in which nothing was observed, in milliseconds since 1970."""

    since: int
    until: int | None
    """None: to this day."""
    node: str = ""
    """The one whose agent did not report; empty: nothing watched the cluster."""


class Span(msgspec.Struct, frozen=True):
    """One entry. Times are milliseconds since 1970."""

    id: int
    since: int
    until: int | None
    """None: to this day."""
    hold: Hold | None
    """None: nothing was observed."""
    begin_seen: bool = True
    """False: the holder had the device when observation began."""
    end_seen: bool = True
    """False: the device was released or given on while nothing was observed."""
    node: str = ""
    """Of a gap, as there."""


class Bridged(NamedTuple):
    """What is different after a gap."""

    ended: tuple[str, ...]
    """Devices that do not have their holder any more."""
    begun: tuple[Hold, ...]


def bridged(before: Mapping[str, Consumer], now: Iterable[Hold]) -> Bridged:
    """Compare who held what before a gap with who holds what after it."""
    held = {hold.device: hold for hold in now}
    same = {name for name, hold in held.items() if before.get(name) == hold.holder}
    return Bridged(
        ended=tuple(name for name in before if name not in same),
        begun=tuple(hold for name, hold in held.items() if name not in same),
    )


def unobserved(span: Span, gaps: Mapping[str, Sequence[Gap]], now: int) -> int:
    """For how many milliseconds of an entry nothing was observed; `gaps`: by node.

    Those of a node and those of everything do not overlap.
    """
    nodes = {"", span.hold.node if span.hold is not None else ""}
    return sum(_shared(span, gap, now) for node in nodes for gap in gaps.get(node, ()))


def _shared(span: Span, gap: Gap, now: int) -> int:
    ends = (now if until is None else until for until in (span.until, gap.until))
    return max(0, min(ends) - max(span.since, gap.since))


def length(text: str) -> int | None:
    """`7d`, `12h` in milliseconds; None for any other text."""
    found = _SPAN.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def moment(text: str, now: int) -> int:
    """`7d`, `12h`: so long before now; otherwise an RFC 3339 time. Raises ValueError."""
    if (before := length(text)) is not None:
        return now - before
    read = datetime.fromisoformat(text)
    at = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)


def written(at: int) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
