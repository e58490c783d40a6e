"""How far the roll-out of each HostPolicy is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.api import HostPolicy, HostPreparation, find_condition
from laneway.controllers.rollout.asked import selected
from laneway.controllers.rollout.observing import standing_of
from laneway.core.rollout.node import Stage
from laneway.core.rollout.terms import budget
from laneway.web.pages.hosts import rows
from laneway.web.pages.hosts.rows import Row
from laneway.web.visit import Visit

_SIGNS = {"RolledOut": "success", "InProgress": "working", "Paused": "off"}
"""By the reason of the condition Ready; any other is for a person to look at."""


class Progress(NamedTuple):
    """One policy."""

    name: str
    nodes: int
    ready: int
    failed: int
    away: int | None
    """None where the user may not see whether nodes are away."""
    allowed: int
    """So many may be away at once; 0 where that is not said properly."""
    sign: str
    reason: str
    message: str


def progress(visit: Visit, found: Sequence[Row]) -> list[Progress]:
    """Of every policy that the user may see."""
    by_name = {row.name: row for row in found}
    known = {one.metadata.name: one for one in visit.caches.preparations.store}
    return [_of(visit, one, by_name, known) for one in rows.policies(visit)]


def _of(
    visit: Visit,
    policy: HostPolicy,
    found: Mapping[str, Row],
    known: Mapping[str, HostPreparation],
) -> Progress:
    name, away = policy.metadata.name, None
    if visit.may(rows.LIST_NODES):
        nodes = selected(policy, visit.caches.nodes.store)
        mine = [found[one.metadata.name] for one in nodes if one.metadata.name in found]
        away = len(standing_of(policy, nodes, known).away)
    else:
        mine = [row for row in found.values() if name in row.one.policies]
    try:
        allowed = budget(policy.spec.rollout.max_unavailable, len(mine))
    except ValueError:
        allowed = 0
    stages = [row.stage for row in mine]
    sign, reason, message = _said(visit, policy)
    return Progress(
        name,
        len(mine),
        stages.count(Stage.READY),
        stages.count(Stage.FAILED),
        away,
        allowed,
        sign,
        reason,
        message,
    )


def _said(visit: Visit, policy: HostPolicy) -> tuple[str, str, str]:
    """What the manager says of it as it is now."""
    ready = find_condition(policy.status.conditions, "Ready")
    if ready is None or ready.observed_generation < policy.metadata.generation:
        return "off", "", visit.texts("hosts.not_judged")
    sign = "success" if ready.status == "True" else _SIGNS.get(ready.reason, "danger")
    return sign, ready.reason, ready.message
