"""The devices and the number of machines of a pool, with what would become of them."""

from __future__ import annotations

from laneway.changes.errors import ChangeError, RefusedError
from laneway.changes.machine_pools import Edit, Wanted, refusals
from laneway.core.ledger.ledger import Ledger
from laneway.web.judged import world_of
from laneway.web.management import Judged
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.pools import choices, fields, seen, trying
from laneway.web.pages.pools.fields import Read, Values
from laneway.web.pages.pools.seen import Gate, Pool
from laneway.web.pages.pools.verdict import sites, verdict
from laneway.web.pages.vms.fields import sent, typed
from laneway.web.pages.vms.resources import LIST_NODES, families
from laneway.web.visit import Visit

_ANSWER = "answer"


def _given(visit: Visit, pool: Pool) -> Values:
    found = typed(visit)
    if found.get(fields.EDITED):
        return fields.typed(found)
    spec = pool.state.spec
    quantity = 1 if spec.quantity is None else spec.quantity
    return fields.shown(pool.state.asked.devices, quantity, trying.stamp(pool))


def _read(visit: Visit, pool: Pool, ledger: Ledger, given: Values) -> Read:
    found = choices.choices(pool, ledger, world_of(visit), families(visit))
    return fields.read(given, choices.known(found, ledger), visit.texts)


def _planned(pool: Pool, known: Judged, found: Read) -> Edit | list[str]:
    """What is written; or what stands against it even before it is judged."""
    try:
        return trying.plan(pool, known, Wanted("", "", found.devices, found.machines))
    except RefusedError as error:
        return list(error.reasons)
    except ChangeError as error:
        return [str(error)]


def _context(visit: Visit) -> Context:
    known, ledger = seen.judged(visit), visit.ledger
    frame = seen.frame(visit, known)
    title = visit.texts("pools.change_title", name=visit.name("pool"))
    if isinstance(known, Gate) or ledger is None:
        return {**frame, "title": title}
    pool, world, texts = seen.named(visit, known), world_of(visit), visit.texts
    given = _given(visit, pool)
    found = choices.choices(pool, ledger, world, families(visit))
    read = fields.read(given, choices.known(found, ledger), texts)
    edit = _planned(pool, known, read)
    sees_nodes = visit.may(LIST_NODES)
    after = Pool(edit.pool, edit.state) if isinstance(edit, Edit) else pool
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
        "option": lambda one: choices.option(texts, one, sees_nodes=sees_nodes),
        "detail": {one.resource: one for one in found},
        "by_node": lambda one: choices.by_node(texts, one.nodes) if sees_nodes else "",
        "read": read,
        "against": edit if isinstance(edit, list) else [],
        "verdict": verdict(visit, edit) if isinstance(edit, Edit) else None,
        "sites": sites(visit, after, known, ledger) if isinstance(edit, Edit) else None,
        "titles": [choices.title_of(one, world) for one in sorted(after.state.pool.devices)],
        "answer": visit.data.get(_ANSWER, ""),
        "no_devices": no_devices,
        "no_machines": no_machines,
        "reason": no_devices if no_devices and no_machines else "",
        "config": pool.state.spec.machine_config_ref,
        "problems": {**(read.wrong if visit.problems else {}), **visit.problems},
    }


async def _prepare(visit: Visit) -> None:
    """Ask the server whether it would store what the form says."""
    await seen.load_rights(visit)
    known, ledger = seen.judged(visit), visit.ledger
    if isinstance(known, Gate) or ledger is None or not typed(visit).get(fields.EDITED):
        return
    pool = seen.named(visit, known)
    read = _read(visit, pool, ledger, _given(visit, pool))
    edit = _planned(pool, known, read)
    if isinstance(edit, Edit) and edit.changes and not read.wrong and not refusals(edit):
        visit.data[_ANSWER] = await trying.tried(visit, edit)


async def _act(visit: Visit) -> Done | Again:
    await seen.load_rights(visit)
    sent(visit)
    known, ledger, texts = seen.judged(visit), visit.ledger, visit.texts
    if visit.sent("check"):
        return Again({})
    if isinstance(known, Gate) or ledger is None:
        return Again({"": [texts("pools.not_known")]})
    pool = seen.named(visit, known)
    given = _given(visit, pool)
    read = _read(visit, pool, ledger, given)
    if read.wrong:
        return Again(read.wrong)
    no_devices, _ = seen.missing(visit, pool)
    devices = None if no_devices else read.devices
    try:
        edit = await trying.save(visit, Wanted("", "", devices, read.machines), given.had)
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
        meanwhile=seen.follow,
    ),
)
ACTIONS = (Action("/pools/{namespace}/{cluster}/{pool}/change", _act),)
