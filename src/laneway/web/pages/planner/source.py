"""The fleet that a plan is about: the served cluster as the user sees it, or an uploaded file.

Of the cluster a user gets a plan who may list its nodes, its GPUs and what is claimed of them. VMs
and pods that the user may not list count, and are not named.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import msgspec

from laneway.controllers.ledger.demands import of_container_pod
from laneway.controllers.ledger.objects import Pod
from laneway.core.fleet.model import POD, Fleet
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand
from laneway.core.ledger.ledger import Ledger
from laneway.views.fleet import of_ledger, plain_name
from laneway.views.gpus import assemble
from laneway.web import holders
from laneway.web.api.capacity import GPUS, NEEDS
from laneway.web.pages.vms.resources import LIST_NODES
from laneway.web.planning import Uploaded
from laneway.web.visit import Visit

ASKS = (*NEEDS, GPUS, LIST_NODES)
"""The rights without which no plan is made of the cluster."""
FIELD, CLUSTER, FILE = "source", "cluster", "file"


class Source(NamedTuple):
    """A fleet, or why there is none."""

    fleet: Fleet | None = None
    ledger: Ledger | None = None
    """What it was made from; None for a file."""
    problem: str = ""


def chosen(visit: Visit) -> str:
    """Which one the user means: the file, where there is one and nothing else is said."""
    said = visit.place.get(FIELD)
    if said in (CLUSTER, FILE):
        return said
    return FILE if visit.own.uploaded is not None else CLUSTER


def uploaded(visit: Visit) -> Uploaded | None:
    """The fleet that the user has uploaded."""
    return visit.site.planning.use(visit.own)


async def load(visit: Visit) -> Source:
    """The fleet."""
    if chosen(visit) == CLUSTER:
        return await _cluster(visit)
    found = uploaded(visit)
    if found is None:
        return Source(problem=visit.texts("planner.no_file"))
    return Source(found.fleet)


async def _cluster(visit: Visit) -> Source:
    access, ledger, texts = visit.user.access, visit.ledger, visit.texts
    await access.load(ASKS)
    if any(access.known(one) is None for one in ASKS):
        return Source(problem=texts("planner.rights_unknown"))
    if lacks := [one.resource for one in ASKS if not access.may(one)]:
        return Source(problem=texts("planner.may_not", resources=", ".join(lacks)))
    if ledger is None:
        return Source(problem=texts("vms.not_known"))
    caches = visit.caches
    gpus = list(caches.gpus.store)
    # Pods come and go all the time: they matter where a GPU has instances for containers.
    pods = caches.pods.store.changes if any(one.status.mode == Mode.MIG for one in gpus) else None
    containers = () if pods is None else _containers(caches.pods.store)
    named = (*ledger.demands, *ledger.shares, *(one.consumer for one in containers))
    places = {one._replace(name="") for one in named}
    await holders.load_consumers(visit, places)
    seen = frozenset(one for one in places if holders.may_see(visit, one))
    objects = (
        list(caches.vgpus.store),
        [card for gpu in gpus if (card := caches.pci.store.get(gpu.metadata.name)) is not None],
        list(caches.claims.store),
        list(caches.migs.store),
    )

    def make() -> Fleet:
        vgpus, cards, claims, migs = objects
        assembled = assemble(gpus, vgpus, cards=cards, claims=claims, migs=migs)
        names = Names(seen, texts("planner.hidden_vm"))
        return names.unlabelled(of_ledger(ledger, assembled, name=names, containers=containers))

    changes = caches.gpus.store.changes, caches.migs.store.changes, pods
    return Source(await visit.site.planning.fleet(make, seen, ledger, *changes), ledger)


def _containers(pods: Iterable[Pod]) -> tuple[Demand, ...]:
    """Those that request GPU instances."""
    return tuple(one for pod in pods if (one := of_container_pod(pod)) is not None)


class Names:
    """Names of VMs and pods: those that a user may not list have a number instead."""

    def __init__(self, seen: frozenset[Consumer], hidden: str) -> None:
        self._seen = seen
        self._hidden = hidden
        self._given: dict[Consumer, str] = {}
        self._numbers = count(1)

    def __call__(self, consumer: Consumer) -> str:
        if consumer._replace(name="") in self._seen:
            return plain_name(consumer)
        if consumer not in self._given:
            name = f"{self._hidden} {next(self._numbers)}"
            is_pod = consumer.kind is ConsumerKind.POD
            self._given[consumer] = f"{POD}{name}" if is_pod else name
        return self._given[consumer]

    def unlabelled(self, fleet: Fleet) -> Fleet:
        """The fleet in which the VMs that have a number have no labels to ask about."""
        hidden = set(self._given.values())
        vms = (
            msgspec.structs.replace(vm, labels={}) if vm.name in hidden else vm for vm in fleet.vms
        )
        return msgspec.structs.replace(fleet, vms=tuple(vms))
