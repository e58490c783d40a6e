"""On what terms a node may be away: what all policies of the node allow together.

Each policy has a say over its own nodes. So the strictest counts: one policy that never reboots
keeps the node up, and a node that two policies select needs room in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from laneway.core.phrases import few

When = Literal["Never", "WhenFree", "InWindow", "OnCommand"]

DEFAULT_BUDGET = "1"


class Terms(NamedTuple):
    """What one policy says about one of its nodes, now."""

    policy: str
    when: When = "Never"
    paused: bool = False
    stop_vms: bool = False
    open_now: bool = False
    """One of its windows is open."""
    windows: str = ""
    """In words."""
    budget: int = 1
    """So many of its nodes may be away at once."""
    away: int = 0
    """So many of its other nodes are."""
    outside: tuple[str, ...] = ()
    """Those of them that are away without Laneway: cordoned by hand, or not Ready."""
    invalid: str = ""
    """Why nothing can be said of what the node is to have."""
    failed: str = ""
    """Another node of it whose reboot failed, which stops the roll-out."""


def budget(max_unavailable: int | str, nodes: int) -> int:
    """How many nodes of so many may be away at once; a share is rounded down, to at least one.

    Raises ValueError.
    """
    text = DEFAULT_BUDGET if max_unavailable == "" else str(max_unavailable)
    number = int(text.removesuffix("%"))
    if number < 1 or (text.endswith("%") and number > 100):
        raise ValueError(text)
    return max(1, nodes * number // 100) if text.endswith("%") else number


def withheld(terms: Sequence[Terms], node: str, *, approved: bool, staying: Sequence[str]) -> str:
    """Why the policies do not let a node begin to reboot; empty when all of them do.

    `approved`: an administrator has asked for this reboot. `staying`: the node's VMs that cannot be
    migrated.
    """
    if not terms:
        return "No HostPolicy selects the node any more. Reboot it when it suits you."
    for one in terms:
        if one.invalid:
            return one.invalid
        if one.paused:
            return f"HostPolicy {one.policy} is paused."
        if why := _when(one, node, approved=approved):
            return why
    if staying and not all(one.stop_vms for one in terms):
        return f"VMs that cannot be migrated run on the node: {few(staying)}."
    for one in terms:
        if one.failed:
            return (
                f"The roll-out of HostPolicy {one.policy} has stopped, as node {one.failed} failed."
            )
        if one.away >= one.budget:
            # Not those of the roll-out: all that wait would be written whenever they change.
            others = f"; {few(one.outside)}: cordoned or not Ready" if one.outside else ""
            return (
                f"HostPolicy {one.policy} allows {one.budget} unavailable at a time, which is "
                f"reached{others}."
            )
    return ""


def _when(one: Terms, node: str, *, approved: bool) -> str:
    if approved:
        return ""
    match one.when:
        case "WhenFree":
            return ""
        case "InWindow":
            windows = one.windows or "it has none"
            why = f"HostPolicy {one.policy} waits for its window: {windows}."
            return "" if one.open_now else why
        case "OnCommand":
            return f"HostPolicy {one.policy} waits for a command: laneway hosts reboot {node}"
        case _:
            return (
                f"HostPolicy {one.policy} never reboots nodes. Reboot this one when it suits you, "
                f"or allow it: laneway hosts reboot {node}"
            )
