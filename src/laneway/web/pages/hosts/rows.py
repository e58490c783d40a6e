"""How far each node is that a HostPolicy selects, as far as a user may see it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from laneway.api import CoreNode, HostPolicy, HostPreparation, find_condition
from laneway.controllers.rollout.asked import selecting
from laneway.core.rollout.node import Stage
from laneway.kube.resource import Key, served
from laneway.views.order import natural
from laneway.views.preparation import Prepared, prepared
from laneway.views.troubles import unreadable
from laneway.web.access import question
from laneway.web.caches import Change
from laneway.web.problems import LISTS
from laneway.web.tables.table import Column, Filter, Option, Table
from laneway.web.visit import Visit

PREPARATIONS, POLICIES = served(HostPreparation), served(HostPolicy)
LIST, LIST_POLICIES, LIST_NODES = LISTS["preparations"], LISTS["policies"], LISTS["nodes"]
ALLOW = question("patch", PREPARATIONS)
CREATE, CHANGE = question("create", POLICIES), question("patch", POLICIES)
KINDS = frozenset({"preparations", "policies", "nodes"})

UNKNOWN = "Unknown"
"""The stage of a node of which no agent has said anything."""
STAGES = (
    Stage.FAILED,
    Stage.DRAINING,
    Stage.REBOOTING,
    Stage.VERIFYING,
    Stage.REBOOT_PENDING,
    Stage.STAGED,
    Stage.PLANNED,
    UNKNOWN,
    Stage.READY,
)
"""What needs a person first."""


class Look(NamedTuple):
    """How a stage is shown: never by its colour alone."""

    colour: str
    icon: str


_MOVING = Look("blue", "working")
LOOKS = {
    Stage.READY: Look("green", "success"),
    Stage.FAILED: Look("red", "danger"),
    Stage.DRAINING: _MOVING,
    Stage.REBOOTING: _MOVING,
    Stage.VERIFYING: _MOVING,
    Stage.REBOOT_PENDING: Look("yellow", "warning"),
    Stage.STAGED: Look("yellow", "info"),
    Stage.PLANNED: Look("grey", "info"),
    UNKNOWN: Look("grey", "off"),
}


class Row(NamedTuple):
    """One node."""

    one: Prepared
    since: str
    """When its stage began; empty where that is not known."""

    @property
    def name(self) -> str:
        return self.one.node

    @property
    def stage(self) -> str:
        """One of `STAGES`, whatever was written."""
        return self.one.stage if self.one.stage in STAGES else UNKNOWN

    @property
    def look(self) -> Look:
        return LOOKS[self.stage]


def row_of(found: HostPreparation) -> Row:
    """The row of a node that has been looked at."""
    one, since = prepared(found), ""
    ready = find_condition(found.status.conditions, "Ready")
    if one.since:
        since = one.since
    elif one.stage == Stage.READY and ready is not None and ready.status == "True":
        since = ready.last_transition_time
    return Row(one, since)


def row_for(visit: Visit, name: str) -> Row | None:
    """The row of one node; None for one that the user may not see, and that no policy selects."""
    if not visit.may(LIST):
        return None
    known, node = visit.caches.preparations.store.get(name), visit.caches.nodes.store.get(name)
    if known is not None:
        return row_of(known)
    return _waiting(visit, node) if node is not None and _sees_selection(visit) else None


def rows(visit: Visit) -> list[Row]:
    """All of them."""
    caches = visit.caches
    found = [row_of(one) for one in caches.preparations.store]
    if not _sees_selection(visit):
        return found
    looked_at = caches.preparations.store
    others = (one for one in caches.nodes.store if looked_at.get(one.metadata.name) is None)
    return [*found, *filter(None, (_waiting(visit, one) for one in others))]


def policies(visit: Visit) -> list[HostPolicy]:
    """Those that the user may see, by name."""
    if not visit.may(LIST_POLICIES):
        return []
    return sorted(visit.caches.policies.store, key=lambda one: natural(one.metadata.name))


def _sees_selection(visit: Visit) -> bool:
    return visit.may(LIST_POLICIES) and visit.may(LIST_NODES)


def _waiting(visit: Visit, node: CoreNode) -> Row | None:
    """A node that is selected and of which nothing is asked yet, or what is cannot be read."""
    names = [one.metadata.name for one in selecting(visit.caches.policies.store, node)]
    if not names:
        return None
    why = visit.caches.preparations.undecodable.get(Key("", node.metadata.name))
    message = unreadable(why).message if why else visit.texts("hosts.not_looked_at")
    return Row(Prepared(node=node.metadata.name, stage="", message=message, policies=names), "")


def table(visit: Visit, found: Sequence[Row]) -> Table[Row]:
    """Its columns and filters."""
    texts = visit.texts
    names = sorted({name for row in found for name in row.one.policies}, key=natural)
    return Table(
        columns=[
            Column("name", texts("hosts.node"), order=_by_name),
            Column("stage", texts("hosts.stage"), order=lambda row: STAGES.index(row.stage)),
            Column("since", texts("hosts.since"), order=lambda row: row.since),
            Column("policies", texts("hosts.policies"), order=lambda row: list(row.one.policies)),
            Column("loader", texts("hosts.boot_loader"), order=lambda row: row.one.boot_loader),
        ],
        key=lambda row: row.name,
        text=lambda row: f"{row.name} {row.one.message}",
        order=_by_name,
        filters=[
            Filter(
                "stage",
                texts("hosts.stage"),
                values=lambda row: (row.stage,),
                options=lambda: [Option(one, texts(f"hosts.stage_{one}")) for one in STAGES],
                groups=True,
                order=STAGES.index,
            ),
            Filter(
                "policy",
                texts("hosts.policy"),
                values=lambda row: row.one.policies,
                options=lambda: [Option(one, one) for one in names],
                groups=True,
            ),
        ],
    )


def _by_name(row: Row) -> object:
    return _natural(row.name)


_natural = functools.lru_cache(maxsize=20_000)(natural)


def concerns(change: Change) -> bool:
    """Whether a change may show on these pages. Kubelets write to their nodes all the time."""
    if change.kind != "nodes":
        return True
    return change.before is None or change.after is None or any(_differs(change))


def _differs(change: Change) -> Iterator[bool]:
    """Between two states of a node: what selects it, and whether it is away."""
    before, after = change.before, change.after
    yield before.metadata.labels != after.metadata.labels
    yield before.spec.unschedulable != after.spec.unschedulable
    ready = (find_condition(one.status.conditions, "Ready") for one in (before, after))
    first, second = (one.status if one is not None else "" for one in ready)
    yield first != second
