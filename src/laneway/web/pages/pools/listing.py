"""The list of guest clusters' machine pools; and the sign-in to another management cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from laneway.changes.answered import words_of
from laneway.kube.errors import CredentialsError, KubeError, UnauthorizedError
from laneway.views import machine_pools as views
from laneway.views.order import natural
from laneway.web.judged import world_of
from laneway.web.management import Judged
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.pools import seen, verdict
from laneway.web.pages.pools.choices import title_of
from laneway.web.pages.pools.seen import Gate, Pool
from laneway.web.session.identity import RefusedError, pasted
from laneway.web.tables.table import Column, Filter, Option, Table
from laneway.web.visit import Visit


def _table(visit: Visit, found: Sequence[Pool]) -> Table[Pool]:
    texts, world = visit.texts, world_of(visit)

    def resources(one: Pool) -> tuple[str, ...]:
        return tuple(one.state.pool.devices)

    def options(of: Callable[[Pool], Sequence[str]]) -> list[str]:
        return sorted({value for one in found for value in of(one)}, key=natural)

    return Table(
        columns=[
            Column("cluster", texts("pools.cluster"), order=lambda one: natural(one.names[1])),
            Column("pool", texts("pools.pool"), order=lambda one: natural(one.names[2])),
            Column("fits", texts("pools.fits"), order=lambda one: views.fit(*one)),
            Column("devices", texts("pools.devices_each")),
            Column("machines", texts("pools.machines"), order=lambda one: one.state.pool.quantity),
            Column("size", texts("pools.size")),
        ],
        key=lambda one: "/".join(one.names),
        text=lambda one: " ".join((*one.names, *resources(one))),
        order=lambda one: tuple(map(natural, one.names)),
        filters=[
            Filter(
                "cluster",
                texts("pools.cluster"),
                values=lambda one: (one.names[1],),
                options=lambda: [Option(one, one) for one in options(lambda p: p.names[1:2])],
                groups=True,
            ),
            Filter(
                "resource",
                texts("vms.resource"),
                values=resources,
                options=lambda: [Option(one, title_of(one, world)) for one in options(resources)],
            ),
        ],
    )


def _context(visit: Visit) -> Context:
    known = seen.judged(visit)
    frame = seen.frame(visit, known)
    world = world_of(visit)
    if isinstance(known, Gate):
        return {**frame, "table": None}
    ledger = known.supply.ledger
    found = [Pool(state, cluster) for cluster in known.clusters for state in cluster.pools]
    return {
        **frame,
        "table": _table(visit, found).view(found, visit.place),
        "fit": lambda one: _fit(visit, one, known),
        "lines": lambda one: seen.lines(visit, one),
        "running": lambda one: views.running(one.state.pool, ledger),
        "gib": lambda one: one.state.asked.size.memory // views.GiB,
        "kind": lambda resource: title_of(resource, world),
    }


def _fit(visit: Visit, one: Pool, known: Judged) -> tuple[str, str]:
    sign, word = verdict.fit(one, known)
    return sign, visit.texts(f"pools.fit_{word}")


async def _act(visit: Visit) -> Done | Again:
    """Take or forget the user's token of the management cluster."""
    own, remote, texts = visit.management, visit.site.remote, visit.texts
    if remote is None:
        return Done("/pools")
    if visit.sent("forget"):
        await own.close()
        return Done("/pools", texts("pools.forgotten"))
    if seconds := remote.wait(visit.user.name):
        return Again({"token": [texts("sign_in.too_many", seconds=math.ceil(seconds))]})
    try:
        await own.sign_in(remote.config, pasted(visit.sent("token")), remote.tracer)
    except RefusedError as refused:
        return Again({"token": [texts(f"sign_in.{refused.problem.id}")]})
    except (UnauthorizedError, CredentialsError):
        return Again({"token": [texts("pools.token_refused")]})
    except KubeError as error:
        return Again({"token": [texts("pools.away", why=words_of(error))]})
    await seen.load(visit)
    return Done("/pools")


PAGES = (
    Page(
        "/pools",
        "pools.html",
        _context,
        kinds=seen.KINDS,
        title="nav.pools",
        asks=seen.ASKS,
        prepare=seen.load,
        meanwhile=seen.follow,
    ),
)
ACTIONS = (Action("/pools", _act),)
