"""The pools of one look, or why there are none to see: what every page of pools begins with.

A management cluster that cannot be read is never shown as one without pools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from laneway.changes.answered import words_of
from laneway.controllers.machine_pools.judged import ClusterState, PoolState
from laneway.controllers.machine_pools.reading import read_config
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.refusals.base import reason_of
from laneway.core.refusals.machine_pools import SurgeBlocked
from laneway.kube.client import Client
from laneway.kube.errors import (
    CredentialsError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
)
from laneway.kube.rancher import CONFIGS, GUEST_CLUSTERS
from laneway.views import machine_pools as views
from laneway.views.machine_pools import Said
from laneway.web import holders
from laneway.web.access import Question, question
from laneway.web.api.capacity import NEEDS
from laneway.web.caches import POOLS, Change
from laneway.web.management import Judged
from laneway.web.page import Context, NotFound
from laneway.web.pages.vms import seen as vms
from laneway.web.pages.vms.resources import FAMILIES, LIST_NODES
from laneway.web.place import link
from laneway.web.visit import Visit

KINDS = frozenset({POOLS.kind})
ASKS = (LIST_NODES, *FAMILIES.values(), *NEEDS)


class Gate(NamedTuple):
    """Why there are no pools to see, and what helps."""

    kind: Literal["absent", "token", "refused", "failed", "waiting"]
    text: str = ""


class Line(NamedTuple):
    """Something that is said of a pool."""

    pool: str
    sign: str
    head: str
    text: str
    short: str
    """All of it in few words."""
    is_refusal: bool = False
    """Whether it says that there is too little room."""


class Pool(NamedTuple):
    """One pool, and the cluster that it is of."""

    state: PoolState
    cluster: ClusterState

    @property
    def names(self) -> tuple[str, str, str]:
        """Namespace, cluster and pool."""
        meta = self.cluster.cluster.metadata
        return meta.namespace, meta.name, self.state.spec.name

    @property
    def title(self) -> str:
        return "/".join(self.names[1:])

    @property
    def path(self) -> str:
        return link("pools", *self.names)


async def client(visit: Visit) -> Client | None:
    """Requests to the management cluster as the user; None without credentials for it."""
    remote, own = visit.site.remote, visit.management
    if remote is None:
        return visit.client
    if own.client is None and await remote.credentials_are_of(visit.user.name):
        await own.open(remote.config, remote.tracer)
    return own.client


async def load(visit: Visit, *, now: bool = False) -> None:
    """See what there is, and which VMs the user may see. `now`: not what was read a moment ago."""
    own = visit.management
    found = await client(visit)
    if found is None:
        return
    await (own.look_now if now else own.look)(found, visit.client)
    if isinstance(own.problem, UnauthorizedError | CredentialsError) and own.client is None:
        raise own.problem
    await own.judge(visit.ledger, visit.site.judging)
    consumers = []
    if (known := own.judged) is not None:
        namespaces = {pool.asked.namespace for one in known.clusters for pool in one.pools}
        consumers = [Consumer(ConsumerKind.VM, one, "") for one in namespaces]
        consumers += known.supply.ledger.demands
    await holders.load_consumers(visit, consumers)


async def _nothing(_visit: Visit) -> None:
    return


async def follow(
    visit: Visit,
    changed: Callable[[Change], None],
    then: Callable[[Visit], Awaitable[None]] = _nothing,
) -> None:
    """See what is new while the page is open. `then`: what the page needs besides."""
    own, judging = visit.management, visit.site.judging

    async def judge() -> Gate | None:
        await own.judge(visit.ledger, judging)
        await then(visit)
        return _rights(visit)

    await own.follow(lambda: client(visit), visit.client, judging, judge, lambda: changed(POOLS))


def judged(visit: Visit) -> Judged | Gate:
    """The pools that the user sees."""
    if (gate := _rights(visit)) is not None:
        return gate
    own, problem = visit.management, visit.management.problem
    if own.known is None and (problem is not None or visit.site.remote is not None):
        return _gate(visit, problem)
    return own.judged or Gate("waiting", visit.texts("vms.not_known"))


def _rights(visit: Visit) -> Gate | None:
    """What keeps the capacity of the served cluster from the user, which pools are judged by."""
    access, texts = visit.user.access, visit.texts
    if any(access.known(one) is None for one in NEEDS):
        why = words_of(access.failure) if access.failure is not None else texts("pools.no_answer")
        return Gate("failed", texts("pools.rights_unknown", why=why))
    if lacking := [f"{one.resource}.{one.group}" for one in NEEDS if not access.may(one)]:
        return Gate("refused", texts("pools.may_not_see", resources=", ".join(lacking)))
    return None


def _gate(visit: Visit, problem: KubeError | None) -> Gate:
    texts, is_remote = visit.texts, visit.site.remote is not None
    match problem:
        case None:
            return Gate("token")
        case UnauthorizedError() | CredentialsError():
            return Gate("token", texts("pools.token_over", why=words_of(problem)))
        case NotFoundError() if not is_remote:
            return Gate("absent")
        case NotFoundError():
            return Gate("failed", texts("pools.no_rancher"))
        case ForbiddenError():
            return Gate("refused", texts("pools.may_not_list", why=words_of(problem)))
        case _:
            return Gate("failed", texts("pools.away", why=words_of(problem)))


def named(visit: Visit, known: Judged) -> Pool:
    """The pool of the page. Raises NotFound."""
    found = find(visit, known)
    if found is None:
        raise NotFound(visit.place.path)
    return found


def find(visit: Visit, known: Judged) -> Pool | None:
    """The pool of the page; None: there is none."""
    wanted = tuple(visit.name(key) for key in ("namespace", "cluster", "pool"))
    pools = (Pool(state, cluster) for cluster in known.clusters for state in cluster.pools)
    return next((pool for pool in pools if pool.names == wanted), None)


def frame(visit: Visit, known: Judged | Gate) -> Context:
    """What every template of pools shows around its own."""
    own = visit.management
    problem = own.problem if not isinstance(known, Gate) else None
    if visit.site.remote is None and visit.site.server.away_since is not None:
        problem = None  # The page says already that this server is away.
    return {
        "gate": known if isinstance(known, Gate) else None,
        "outdated": words_of(problem) if problem else "",
        "since": own.since.isoformat() if own.since else "",
        "unknown": _unknown(known) if isinstance(known, Judged) else (),
        "signed_in": own.name if visit.site.remote is not None else "",
    }


def _unknown(known: Judged) -> list[str]:
    """What could not be read, and what follows: a sentence each."""
    found = dict.fromkeys((*known.managed.unknown, *known.supply.unknown))
    return [f"{one[:1].upper()}{one[1:]}." for one in found]


def lines(visit: Visit, one: Pool) -> list[Line]:
    """What is said of a pool, without names that are not the user's to see."""
    return [_line(visit, one, said) for said in views.said(*one)]


def _line(visit: Visit, one: Pool, said: Said) -> Line:
    texts, name = visit.texts, one.state.spec.name
    text = vms.words(visit, said.text)
    match said.weight:
        case "warning":
            what = "surge" if said.reason == reason_of(SurgeBlocked) else "uncertain"
            head, short = texts(f"pools.head_{what}", name=name), texts(f"pools.short_{what}")
            return Line(name, "warning", head, text, short)
        case "refusal":
            head = texts("pools.head_refusal", name=name)
            pool = one.state.pool
            room = min(one.cluster.judgement.room.get(pool.name, 0), pool.coming)
            short = texts.count("pools.short", pool.coming, room=room)
            return Line(name, "danger", head, text, short, is_refusal=True)
        case _:
            head = texts(f"pools.head_{said.weight}", name=name)
            return Line(name, "info" if said.weight == "unknown" else "danger", head, text, text)


def rights(pool: Pool) -> tuple[Question, Question]:
    """To change the devices of a pool, and the number of its machines."""
    namespace = pool.names[0]
    config = CONFIGS[pool.state.spec.machine_config_ref.kind]
    return question("patch", config, namespace), question("patch", GUEST_CLUSTERS, namespace)


async def load_rights(visit: Visit) -> None:
    """The same as `load` for the page of one pool, with what the user may do with it."""
    await load(visit)
    known = judged(visit)
    if isinstance(known, Judged) and find(visit, known) is None:
        await load(visit, now=True)  # It may have been made a moment ago.
        known = judged(visit)
    if isinstance(known, Judged):
        access = visit.management.access or visit.user.access
        await access.load(rights(named(visit, known)))


def missing(visit: Visit, pool: Pool) -> tuple[str, str]:
    """Why the user cannot change the devices, and why not the number of machines."""
    devices, machines = (_missing(visit, one) for one in rights(pool))
    return devices, machines


def _missing(visit: Visit, asked: Question) -> str:
    access, resource = visit.management.access or visit.user.access, asked.resource
    may = access.known(asked)
    if may:
        return ""
    text = "pools.may_not_patch" if may is False else "pools.may_patch_unknown"
    return visit.texts(text, resource=f"{resource}.{asked.group}", namespace=asked.namespace)


def correction(pool: Pool) -> str:
    """The command by which the object is corrected that has the mistakes of a pool."""
    namespace, cluster, _ = pool.names
    ref = pool.state.spec.machine_config_ref
    if pool.state.config is None or not read_config(pool.state.config)[1]:
        return f"kubectl edit {GUEST_CLUSTERS} {cluster} -n {namespace}"
    return f"kubectl edit {CONFIGS[ref.kind]} {ref.name} -n {namespace}"


def crumbs(visit: Visit, pool: Pool, here: str = "") -> list[tuple[str, str]]:
    """The way to a page of a pool."""
    way = [(visit.texts("nav.pools"), "/pools"), (pool.title, pool.path)]
    return [*way, (here, "")] if here else [way[0], (pool.title, "")]


def sees(visit: Visit, namespace: str) -> bool:
    """Whether the user may see the VMs of a namespace."""
    return holders.may_see(visit, Consumer(ConsumerKind.VM, namespace, ""))
