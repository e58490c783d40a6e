"""All devices of a pool are removed, once its user has seen which machines that replaces."""

from __future__ import annotations

from collections.abc import Callable

from laneway.changes.errors import RefusedError
from laneway.changes.machine_pools import Edit, Wanted
from laneway.web.caches import Change
from laneway.web.judged import world_of
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.pools import seen, trying
from laneway.web.pages.pools.choices import title_of
from laneway.web.pages.pools.seen import Gate
from laneway.web.pages.pools.verdict import verdict
from laneway.web.pages.vms.resources import url_of
from laneway.web.visit import Visit

_NONE = Wanted("", "", {})
_PLAN = "plan"


def _context(visit: Visit) -> Context:
    known, texts = seen.judged(visit), visit.texts
    frame = seen.frame(visit, known)
    title = texts("pools.remove_title", name=visit.name("pool"))
    if isinstance(known, Gate):
        return {**frame, "title": title}
    pool, world = seen.named(visit, known), world_of(visit)
    title = texts("pools.remove_title", name=pool.title)
    plan = visit.data.get(_PLAN, trying.Plan(known))
    no_devices, _ = seen.missing(visit, pool)
    held = [
        share
        for one in pool.state.pool.machines
        for share in known.supply.ledger.shares.get(one.vm, ())
        if share.resource in pool.state.pool.devices
    ]
    return {
        **frame,
        "title": title,
        "pool": pool,
        "crumbs": seen.crumbs(visit, pool, title),
        "devices": [
            (count, title_of(one, world)) for one, count in sorted(pool.state.pool.devices.items())
        ],
        "held": sorted(share.name for share in held),
        "device_url": lambda name: url_of(name, world),
        "against": plan.against,
        "verdict": verdict(visit, plan.edit, plan.known) if plan.edit is not None else None,
        "reason": no_devices or _nothing(visit, plan.edit),
    }


async def _plan(visit: Visit) -> None:
    known, plan = seen.judged(visit), visit.data.get(_PLAN)
    if isinstance(known, Gate) or (pool := seen.find(visit, known)) is None:
        return
    if plan is None or plan.known is not known:
        visit.data[_PLAN] = await trying.plan(visit, pool, known, _NONE)


async def _prepare(visit: Visit) -> None:
    await seen.load_rights(visit)
    await _plan(visit)


async def _follow(visit: Visit, changed: Callable[[Change], None]) -> None:
    await seen.follow(visit, changed, _plan)


def _nothing(visit: Visit, edit: Edit | None) -> str:
    """Why there is nothing to remove."""
    if edit is None:
        return visit.texts("pools.mend_first")
    return "" if edit.changes else visit.texts("pools.has_none")


async def _act(visit: Visit) -> Done | Again:
    await seen.load_rights(visit)
    known = seen.judged(visit)
    if isinstance(known, Gate):
        return Again({"": [visit.texts("pools.not_known")]})
    pool = seen.named(visit, known)
    try:
        await trying.save(visit, _NONE)
    except RefusedError as error:
        return Again({"": list(error.reasons)})
    return Done(pool.path, visit.texts("pools.removed", name=pool.title))


PAGES = (
    Page(
        "/pools/{namespace}/{cluster}/{pool}/remove",
        "pools-remove.html",
        _context,
        kinds=seen.KINDS,
        asks=seen.ASKS,
        prepare=_prepare,
        meanwhile=_follow,
    ),
)
ACTIONS = (Action("/pools/{namespace}/{cluster}/{pool}/remove", _act),)
