"""A pool: what its machines have, whether all can start, and in which order they go."""

from __future__ import annotations

from laneway.views import machine_pools as views
from laneway.views.order import natural
from laneway.web.judged import world_of
from laneway.web.page import Context, Page
from laneway.web.pages.pools import seen
from laneway.web.pages.pools.choices import memory_of, title_of
from laneway.web.pages.pools.seen import Gate, Line, Pool
from laneway.web.pages.pools.verdict import fit, machines, sites
from laneway.web.pages.vms.form import amount
from laneway.web.pages.vms.resources import url_of
from laneway.web.place import link
from laneway.web.visit import Visit

_SHOWN = 200


def _context(visit: Visit) -> Context:
    known = seen.judged(visit)
    frame = seen.frame(visit, known)
    title = "/".join(visit.name(key) for key in ("cluster", "pool"))
    if isinstance(known, Gate):
        return {**frame, "title": title}
    pool = seen.named(visit, known)
    state, world, ledger = pool.state, world_of(visit), known.supply.ledger
    found = machines(visit, pool, ledger)
    sees_vms = seen.sees(visit, state.asked.namespace)
    devices, count = seen.missing(visit, pool)
    ref = state.spec.machine_config_ref
    sign, word = fit(pool, known)
    broken = visit.texts("pools.mend_first") if state.problems else ""
    none = "" if state.pool.devices else visit.texts("pools.has_none")
    return {
        **frame,
        "title": title,
        "pool": pool,
        "crumbs": seen.crumbs(visit, pool),
        "fit": (sign, visit.texts(f"pools.start_{word}")),
        "lines": seen.lines(visit, pool),
        "others": _others(visit, pool) if word == "not_all_pools" else {},
        "devices": [
            (state.pool.devices[one], title_of(one, world), memory_of(one, world), one)
            for one in sorted(state.pool.devices, key=natural)
        ],
        "machines": found[:_SHOWN],
        "more": max(len(found) - _SHOWN, 0),
        "gib": state.asked.size.memory // views.GiB,
        "running": views.running(state.pool, ledger),
        "to_create": views.to_create(state.pool),
        "room": pool.cluster.judgement.room.get(state.pool.name, 0),
        "sites": sites(visit, pool, known),
        "titles": [title_of(one, world) for one in sorted(state.pool.devices, key=natural)],
        "cpu": amount(state.pool.cpu, "cpu"),
        "memory": amount(state.pool.memory, "memory"),
        "no_edit": broken or (devices if devices and count else ""),
        "no_remove": broken or devices or none,
        "device_url": lambda name: url_of(name, world),
        "vm_url": lambda name: link("vms", state.asked.namespace, name) if sees_vms else "",
        "config": f"{ref.kind} {ref.name}",
        "command": seen.correction(pool),
    }


def _others(visit: Visit, pool: Pool) -> dict[str, Line]:
    """The other pools with too little room, each by its page."""
    others = (Pool(one, pool.cluster) for one in pool.cluster.pools if one is not pool.state)
    lines = ((one.path, line) for one in others for line in seen.lines(visit, one))
    return {path: line for path, line in lines if line.is_refusal}


PAGES = (
    Page(
        "/pools/{namespace}/{cluster}/{pool}",
        "pools-one.html",
        _context,
        kinds=seen.KINDS,
        asks=seen.ASKS,
        prepare=seen.load_rights,
        meanwhile=seen.follow,
    ),
)
