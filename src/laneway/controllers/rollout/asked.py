"""What the policies ask of the nodes that they select."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from laneway.api import CoreNode, HostPolicy, HostRebootWindow
from laneway.controllers.preparation.settings import wanted_of
from laneway.core import keys
from laneway.core.preparation.merging import Asked, Contradiction, merge
from laneway.core.preparation.wanted import NOTHING, Wanted, invalid
from laneway.core.requested import read
from laneway.core.rollout.terms import budget


class Merged(NamedTuple):
    """What a node is to have, as far as its policies allow to say that."""

    wanted: Wanted = NOTHING
    problem: str = ""
    """Why nothing can be said; what was asked of the node before stands."""


def selecting(policies: Iterable[HostPolicy], node: CoreNode) -> list[HostPolicy]:
    """The policies that select a node, by name."""
    meta = node.metadata
    found = [
        one
        for one in policies
        if not one.metadata.deletion_timestamp
        and one.spec.node_selector.selects(meta.name, meta.labels)
    ]
    return sorted(found, key=lambda one: one.metadata.name)


def selected(policy: HostPolicy, nodes: Iterable[CoreNode]) -> list[CoreNode]:
    """The nodes that a policy selects, by name."""
    selector = policy.spec.node_selector
    found = [one for one in nodes if selector.selects(one.metadata.name, one.metadata.labels)]
    return sorted(found, key=lambda one: one.metadata.name)


def merged(policies: Sequence[HostPolicy]) -> Merged:
    """What all policies of a node ask of it together."""
    for one in policies:
        if found := problems(one):
            return Merged(problem=f"HostPolicy {one.metadata.name} is invalid: {found[0]}.")
    both = merge([Asked(one.metadata.name, wanted_of(one.spec)) for one in policies])
    if isinstance(both, Contradiction):
        names = " and ".join(both.policies)
        return Merged(problem=f"HostPolicies {names} contradict each other: {both.why}.")
    return Merged(both)


def problems(policy: HostPolicy) -> tuple[str, ...]:
    """What is wrong with a policy by itself, in words."""
    found = [*invalid(wanted_of(policy.spec))]
    rollout = policy.spec.rollout
    try:
        budget(rollout.max_unavailable, 1)
    except ValueError:
        shown = str(rollout.max_unavailable)[:20]
        found.append(f"maxUnavailable {shown!r} is neither a number from 1 nor a share such as 10%")
    if rollout.reboot.when == "InWindow" and not rollout.reboot.windows:
        found.append("reboot.when is InWindow, and there are no windows")
    for window in rollout.reboot.windows:
        if zone_of(window) is None:
            found.append(f"time zone {window.time_zone[:60]!r} is unknown; use one such as UTC")
        if not window.minutes:
            found.append("a window has no minutes")
    return tuple(found)


def requested_by(policies: Iterable[HostPolicy]) -> str:
    """The note of the user who changed one of the policies last; empty where none has a note."""
    notes = [one.metadata.annotations.get(keys.ANNOTATION_REQUESTED_BY, "") for one in policies]
    return max(notes, key=lambda note: read({keys.ANNOTATION_REQUESTED_BY: note}).time, default="")


def zone_of(window: HostRebootWindow) -> ZoneInfo | None:
    """The time zone of a window; None for one that is not known here."""
    try:
        return ZoneInfo(window.time_zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
