"""The devices and the number of machines of a pool, with what would become of them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from laneway.changes.errors import RefusedError
from laneway.changes.machine_pools import Wanted, refusals
from laneway.web.caches import Change
from laneway.web.judged import world_of
from laneway.web.management import Judged
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.pools import choices, fields, seen, trying
from laneway.web.pages.pools.choices import Choice
from laneway.web.pages.pools.fields import Read, Values
from laneway.web.pages.pools.seen import Gate, Pool
from laneway.web.pages.pools.verdict import sites, verdict
from laneway.web.pages.vms.fields import sent, typed
from laneway.web.pages.vms.resources import LIST_NODES, families
from laneway.web.visit import Visit

_PLAN, _ANSWER = "plan", "answer"


def _given(visit: Visit, pool: Pool) -> Values:
    found, now = typed(visit), trying.stamp(pool)
    desired = pool.state.spec.desired
    own = fields.shown(pool.state.asked.devices, desired, found.get(fields.HAD) or now)
    if not found.get(fields.EDITED):
        return own
    given = fields.typed(found)
    may_not, _ = seen.missing(visit, pool)
    return given._replace(rows=own.rows) if may_not else given  # Browsers send no disabled field.


def _choices(visit: Visit, pool: Pool, known: Judged) -> list[Choice]:
    return choices.choices(pool, known.supply.ledger, world_of(visit), families(visit))


def _read(visit: Visit, pool: Pool, known: Judged, given: Values) -> Read:
    found = choices.known(_choices(visit, pool, known), known.supply.ledger)
    return fields.read(given, found, visit.texts)


def _wanted(visit: Visit, pool: Pool, read: Read) -> Wanted:
    may_not, _ = seen.missing(visit, pool)
    return Wanted("", "", None if may_not else read.devices, read.machines)


def _context(visit: Visit) -> Context:
    known, texts = seen.judged(visit), visit.texts
    frame = seen.frame(visit, known)
    title = texts("pools.change_title", name=visit.name("pool"))
    if isinstance(known, Gate):
        return {**frame, "title": title}
    pool, world = seen.named(visit, known), world_of(visit)
    given, found = _given(visit, pool), _choices(visit, pool, known)
    read = fields.read(given, choices.known(found, known.supply.ledger), texts)
    plan, answer = visit.data.get(_PLAN, trying.Plan(known)), visit.data.get(_ANSWER)
    sees_nodes = visit.may(LIST_NODES)
    overtaken = given.had not in ("", trying.stamp(pool))
    edit = None if read.wrong or overtaken else plan.edit
    after = Pool(edit.pool, edit.state) if edit is not None else pool
    no_devices, no_machines = seen.missing(visit, pool)
    title = texts("pools.change_title", name=pool.title)
    return {
        **frame,
        "title": title,
        "pool": pool,
        "crumbs": seen.crumbs(visit, pool, title),
        "lines": seen.lines(visit, pool),
        "command": seen.correction(pool),
        "given": given,
        "choices": found,
        "option": lambda one: choices.option(texts, one),
        "detail": {one.resource: one for one in found},
        "by_node": lambda one: choices.by_node(texts, one.nodes) if sees_nodes else "",
        "read": read,
        "overtaken": texts("pools.changed_meanwhile", name=pool.title) if overtaken else "",
        "against": () if read.wrong or overtaken else plan.against,
        "answer": None if read.wrong or overtaken else answer,
        "verdict": verdict(visit, edit, plan.known) if edit is not None else None,
        "sites": sites(visit, after, plan.known) if edit is not None else None,
        "titles": [choices.title_of(one, world) for one in sorted(after.state.pool.devices)],
        "no_devices": no_devices,
        "no_machines": no_machines,
        "reason": no_devices if no_devices and no_machines else "",
        "config": pool.state.spec.machine_config_ref,
        "problems": {**(read.wrong if visit.problems else {}), **visit.problems},
    }


async def _plan(visit: Visit) -> None:
    """Plan what the form says, as the pools are known now."""
    known = seen.judged(visit)
    if isinstance(known, Gate) or (pool := seen.find(visit, known)) is None:
        return
    read = _read(visit, pool, known, _given(visit, pool))
    plan = visit.data.get(_PLAN)
    if not read.wrong and (plan is None or plan.known is not known):
        wanted = _wanted(visit, pool, read)
        visit.data[_PLAN] = await trying.plan(visit, pool, known, wanted)


async def _prepare(visit: Visit) -> None:
    """Plan what the form says, and ask the server whether it would store it."""
    await seen.load_rights(visit)
    known = seen.judged(visit)
    if isinstance(known, Gate):
        return
    given = _given(visit, seen.named(visit, known))
    if typed(visit).get(fields.EDITED):
        visit.place = replace(visit.place, query=fields.query(given))
    else:
        visit.place = replace(visit.place, query=((fields.HAD, given.had),))
    await _plan(visit)
    await _ask(visit)


async def _ask(visit: Visit) -> None:
    plan = visit.data.get(_PLAN)
    edit = plan.edit if plan is not None else None
    if edit is not None and edit.changes and not refusals(edit):
        visit.data[_ANSWER] = await trying.tried(visit, edit)


async def _again(visit: Visit) -> None:
    """Plan again what the form says; ask the server if it was not asked yet, or did not answer."""
    await _plan(visit)
    answer = visit.data.get(_ANSWER)
    is_open = answer is not None and answer[0] == "warning" and visit.management.problem is None
    if is_open or _ANSWER not in visit.data:
        await _ask(visit)


async def _follow(visit: Visit, changed: Callable[[Change], None]) -> None:
    await seen.follow(visit, changed, _again)


async def _act(visit: Visit) -> Done | Again:
    await seen.load_rights(visit)
    sent(visit)
    known, texts = seen.judged(visit), visit.texts
    if visit.sent("check"):
        return Again({})
    if isinstance(known, Gate):
        return Again({"": [texts("pools.not_known")]})
    pool = seen.named(visit, known)
    given = _given(visit, pool)
    read = _read(visit, pool, known, given)
    if read.wrong:
        return Again(read.wrong)
    try:
        edit = await trying.save(visit, _wanted(visit, pool, read), given.had)
    except RefusedError as error:
        return Again({"": list(error.reasons)})
    done = "pools.saved" if edit.changes else "pools.unchanged"
    return Done(pool.path, texts(done, name=pool.title))


PAGES = (
    Page(
        "/pools/{namespace}/{cluster}/{pool}/change",
        "pools-change.html",
        _context,
        kinds=seen.KINDS,
        asks=seen.ASKS,
        prepare=_prepare,
        meanwhile=_follow,
    ),
)
ACTIONS = (Action("/pools/{namespace}/{cluster}/{pool}/change", _act),)
