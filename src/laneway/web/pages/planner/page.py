"""The form of the planner, with an answer that follows it and, for the cluster, the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from laneway.core.fleet.effort import TooLongError
from laneway.core.fleet.model import Fleet
from laneway.core.ledger.ledger import Ledger
from laneway.kube.resource import Key
from laneway.views.planning.command import command
from laneway.web.caches import Change
from laneway.web.page import Context, Page
from laneway.web.pages.planner import fields, source
from laneway.web.pages.planner.answer import Said, Wrong, answered
from laneway.web.pages.planner.choices import choices
from laneway.web.planning import FILE_BYTES
from laneway.web.visit import Visit

PATH = "/planner"
REST_SECONDS = 5.0
"""For so long after a plan no other is made because the cluster has changed."""
_KIND = "planner"
_CHANGED = Change(_KIND, Key("", ""), None, None)
_PLAN = "plan"


class Plan(NamedTuple):
    """What was planned, and from what."""

    fleet: Fleet | None
    ledger: Ledger | None
    problem: str = ""
    said: Said | None = None
    wrong: Mapping[str, str] = {}
    """Problems by field."""


async def _prepare(visit: Visit) -> None:
    visit.data[_PLAN] = await _plan(visit)


async def _plan(visit: Visit) -> Plan:
    found = await source.load(visit)
    fleet = found.fleet
    if fleet is None:
        return Plan(None, found.ledger, found.problem)
    read = fields.read(visit.place, visit.texts)
    if read.wrong:
        return Plan(fleet, found.ledger, wrong=read.wrong)
    own = source.uploaded(visit) if source.chosen(visit) == source.FILE else None
    name = own.name if own is not None else ""
    restart = fields.may_restart(visit.place)
    try:
        said = await visit.site.planning.thread.run(
            lambda: answered(fleet, read, name, restart=restart)
        )
    except TooLongError:
        words = visit.texts("planner.too_long", command=command(read.changes, name))
        return Plan(fleet, found.ledger, words)
    if isinstance(said, Wrong):
        return Plan(fleet, found.ledger, wrong={said.field: said.words})
    return Plan(fleet, found.ledger, said=said)


async def _follow(visit: Visit, changed: Callable[[Change], None]) -> None:
    """Plan again when the cluster is another."""
    if source.chosen(visit) != source.CLUSTER:
        return
    judging = visit.site.judging
    while True:
        made = judging.made
        if visit.data[_PLAN].ledger is visit.ledger:
            await made.wait()
        visit.data[_PLAN] = await _plan(visit)
        changed(_CHANGED)
        await asyncio.sleep(REST_SECONDS)


def _context(visit: Visit) -> Context:
    plan: Plan = visit.data.get(_PLAN) or Plan(None, None)
    place, fleet = visit.place, plan.fleet
    rows = {group: fields.rows(place, group) for group in fields.GROUPS}
    return {
        "path": PATH,
        "source": source.chosen(visit),
        "uploaded": visit.own.uploaded,
        "most_mib": FILE_BYTES >> 20,
        "known": fleet is not None,
        "counts": (len(fleet.nodes), len(fleet.gpus), len(fleet.vms)) if fleet else (0, 0, 0),
        "unreadable": fleet.unreadable if fleet else (),
        "rows": rows,
        "choices": choices(fleet or Fleet(), (*rows["gpus"], *rows["nodes"])),
        "shown_devices": fields.shown_devices,
        "counts_of": fields.COUNTS,
        "restart": fields.may_restart(place),
        "wrong": plan.wrong,
        "problem": plan.problem,
        "said": plan.said,
        "problems": visit.problems,
    }


PAGES = (
    Page(
        PATH,
        "planner.html",
        _context,
        kinds=frozenset({_KIND}),
        title="nav.planner",
        asks=source.ASKS,
        prepare=_prepare,
        meanwhile=_follow,
    ),
)
