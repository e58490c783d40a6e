"""Allow the reboot of a node whose policies wait for that, once its effects are known.

The server is asked for the same write without making it, so that a refusal shows before the button
is pressed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from laneway.api import CoreNode, HostPolicy
from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError
from laneway.changes.reboots import allow_reboot
from laneway.controllers.rollout.asked import merged, selecting
from laneway.controllers.rollout.observing import standing_of, terms_of, vms_of
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.rollout.terms import withheld
from laneway.kube.errors import KubeError, UnauthorizedError
from laneway.views.preparation import Prepared, can_be_approved
from laneway.web import holders
from laneway.web.caches import Change
from laneway.web.page import Action, Context, Done, NotFound, Page
from laneway.web.pages.hosts import rows
from laneway.web.pages.hosts.rows import Row
from laneway.web.place import link
from laneway.web.visit import Visit

_REFUSED = "refused"


class Effect(NamedTuple):
    """What a reboot does to those who use the node."""

    drains: bool
    """Pods are evicted."""
    stops: bool
    """VMs that cannot be migrated are stopped; without it, the node waits for their end."""
    migrate: Sequence[str]
    stay: Sequence[str]
    """Each with the reason."""
    waits: str
    """What the node waits for even so."""


def _named(visit: Visit) -> Row:
    row = rows.row_for(visit, visit.name("name"))
    if row is None:
        raise NotFound(visit.name("name"))
    return row


def _context(visit: Visit) -> Context:
    row = _named(visit)
    return {
        "title": visit.texts("hosts.reboot_title", node=row.name),
        "row": row,
        "effect": _effect(visit, row.name),
        "reason": against(visit, row.one),
        "refused": visit.data.get(_REFUSED, ""),
        "concerns": lambda change: _concerns(row.name, change),
    }


def against(visit: Visit, one: Prepared) -> str:
    """Why the user cannot allow the reboot; empty where that works."""
    texts = visit.texts
    if one.approved:
        return texts("hosts.reboot_allowed")
    if not can_be_approved(one):
        return texts("hosts.reboot_not_waiting")
    if not visit.may(rows.ALLOW):
        resource = rows.ALLOW.resource
        return texts("claiming.may_not", verb=rows.ALLOW.verb, resource=resource)
    return ""


def _effect(visit: Visit, name: str) -> Effect:
    caches = visit.caches
    node = caches.nodes.store.get(name)
    found = selecting(caches.policies.store, node) if node is not None else []
    migrate, stay = [], []
    for vm in vms_of(one for one in caches.instances.store if one.status.node_name == name):
        who = holders.of_consumer(visit, _vm(vm.name)).text
        if vm.stays:
            stay.append(visit.texts("hosts.vm_stays", vm=who, why=vm.stays))
        else:
            migrate.append(who)
    return Effect(
        drains=not (found and all(one.spec.rollout.skip_drain for one in found)),
        stops=bool(found) and all(one.spec.rollout.stop_vms for one in found),
        migrate=migrate,
        stay=stay,
        waits=_waits(visit, node, found) if node is not None else "",
    )


def _waits(visit: Visit, node: CoreNode, found: Sequence[HostPolicy]) -> str:
    """What keeps the node up once its reboot is allowed; its VMs are told by themselves."""
    if problem := merged(found).problem:
        return problem
    caches, now = visit.caches, time.time()
    known = {one.metadata.name: one for one in caches.preparations.store}
    name, nodes = node.metadata.name, caches.nodes.store
    terms = [terms_of(one, name, standing_of(one, nodes, known), now) for one in found]
    return withheld(terms, name, approved=True, staying=())


def _vm(name: str) -> Consumer:
    namespace, _, vm = name.partition("/")
    return Consumer(ConsumerKind.VM, namespace, vm)


async def _prepare(visit: Visit) -> None:
    row = _named(visit)
    instances = [one for one in visit.caches.instances.store if one.status.node_name == row.name]
    await holders.load_consumers(visit, (_vm(one.name) for one in vms_of(instances)))
    if not against(visit, row.one):
        try:
            await allow_reboot(visit.client.unwaiting(), row.name, dry_run=True)
        except UnauthorizedError:
            raise
        except (KubeError, ChangeError) as error:
            visit.data[_REFUSED] = words_of(error)


async def _allow(visit: Visit) -> Done:
    row = _named(visit)
    await allow_reboot(visit.client, row.name)
    return Done(link("nodes", row.name), visit.texts("hosts.reboot_done", node=row.name))


def _concerns(name: str, change: Change) -> bool:
    if change.kind == "instances":
        return name in {one.status.node_name for one in (change.before, change.after) if one}
    return rows.concerns(change)


PAGES = (
    Page(
        "/nodes/{name}/reboot",
        "hosts-reboot.html",
        _context,
        kinds=rows.KINDS | {"instances"},
        needs=(rows.LIST, rows.LIST_POLICIES, rows.LIST_NODES),
        asks=(rows.ALLOW,),
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/nodes/{name}/reboot", _allow),)
