"""A change of a pool: planned from what is known now, tried on the server, and stored.

It is planned outside the event loop, before the page is drawn.

The objects are read again before anything is stored, so a change of their status refuses nothing.
If another user has changed the pool since the form was opened, the form says so and stores nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError, OvertakenError, RefusedError
from laneway.changes.machine_pools import Edit, Wanted, planned, refuse, store
from laneway.kube.client import Client
from laneway.kube.errors import CredentialsError, KubeError, UnauthorizedError, is_outage
from laneway.web.management import Judged
from laneway.web.pages.pools import seen
from laneway.web.pages.pools.seen import Gate, Pool
from laneway.web.visit import Visit

_TIMES = 3


def stamp(pool: Pool) -> str:
    """Another one whenever someone has changed the devices or the machines of a pool."""
    config = pool.state.config
    strings = (config.vgpu_info, config.host_device_info) if config is not None else ()
    text = repr((pool.state.spec.quantity, strings))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Plan(NamedTuple):
    """A change of a pool as it was planned."""

    known: Judged
    """What it was planned from."""
    edit: Edit | None = None
    against: Sequence[str] = ()
    """Why there is none."""


async def plan(visit: Visit, pool: Pool, known: Judged, wanted: Wanted) -> Plan:
    """What a change writes, or what stands against it even before it is judged."""
    try:
        return Plan(known, await _plan(visit, pool, known, wanted))
    except RefusedError as error:
        return Plan(known, against=error.reasons)
    except ChangeError as error:
        return Plan(known, against=[str(error)])


async def _plan(visit: Visit, pool: Pool, known: Judged, wanted: Wanted) -> Edit:
    """Raises ChangeError, also where the pool cannot be read."""
    namespace, cluster, name = pool.names
    wanted = wanted._replace(cluster=f"{namespace}/{cluster}", pool=name)
    return await visit.site.judging.run(lambda: planned(known.managed, known.supply, wanted))


async def tried(visit: Visit, edit: Edit) -> tuple[str, str] | None:
    """Why the server would not store a change that fits, with a sign; None: it would."""
    client = await seen.client(visit)
    if client is None:
        return None
    try:
        await store(client, edit, dry_run=True)
    except OvertakenError:
        return None  # it is read again before it is stored
    except (ChangeError, KubeError) as error:
        is_unknown = isinstance(error, KubeError) and is_outage(error)
        sign, text = ("warning", "not_asked") if is_unknown else ("danger", "server_refuses")
        return sign, visit.texts(f"pools.{text}", why=words_of(error))
    return None


async def save(visit: Visit, wanted: Wanted, had: str = "") -> Edit:
    """Store a change of a pool with this stamp, if one is given. Raises ChangeError, KubeError."""
    client = await seen.client(visit)
    if client is None:
        raise ChangeError(visit.texts("pools.not_known"))
    try:
        for _ in range(_TIMES - 1):
            with contextlib.suppress(OvertakenError):
                return await _save(visit, client, wanted, had)
        return await _save(visit, client, wanted, had)
    except (UnauthorizedError, CredentialsError) as error:
        if visit.site.remote is None:
            raise
        raise ChangeError(visit.texts("pools.token_over", why=words_of(error))) from error


async def _save(visit: Visit, client: Client, wanted: Wanted, had: str) -> Edit:
    own = visit.management
    await _look(visit, client)
    if own.problem is not None:
        raise own.problem
    known = seen.judged(visit)
    if isinstance(known, Gate):
        raise ChangeError(visit.texts("pools.not_known"))
    pool = seen.named(visit, known)
    if had and had != stamp(pool):
        raise ChangeError(visit.texts("pools.changed_meanwhile", name=pool.title))
    edit = await _plan(visit, pool, known, wanted)
    refuse(edit)
    if edit.changes:
        await store(client, edit)
        await _look(visit, client)
    return edit


async def _look(visit: Visit, client: Client) -> None:
    own = visit.management
    await own.look_now(client, visit.client)
    await own.judge(visit.ledger, visit.site.judging)
