"""The VMs of one look: those in namespaces that the user may list; and words without other names.

A VM that was made a moment ago may not be known here yet; then its page asks for it.
"""

from __future__ import annotations

import contextlib
import re

from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.kube.errors import KubeError
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.views.vms import Vm
from laneway.web import holders
from laneway.web.page import NotFound
from laneway.web.pages.vms import rows
from laneway.web.tables.rows import Rows
from laneway.web.visit import Visit

LIST = holders.LISTS[ConsumerKind.VM]
_MADE = "vm"
"""What `prepare` has fetched of a VM that was made a moment ago."""
_CONSUMER = re.compile(r"\b(VM|pod) ([a-z0-9-]{1,63})/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)")
"""How texts name a VM or pod."""


def namespaces(visit: Visit) -> frozenset[str]:
    """The namespaces that have VMs."""
    return frozenset(rows.keep(visit.site).values(rows.NAMESPACE))


async def load(visit: Visit) -> None:
    """Wait for the answers about all namespaces that have VMs, or pods with devices."""
    vms = (Consumer(ConsumerKind.VM, one, "") for one in namespaces(visit))
    demands = visit.ledger.demands if visit.ledger is not None else ()
    await holders.load_consumers(visit, (*vms, *demands))


def rows_seen(visit: Visit) -> Rows[Vm]:
    """Every VM that the user may see, as rows."""
    allowed = visit.user.access.namespaces(LIST, namespaces(visit))
    return rows.keep(visit.site).only(rows.NAMESPACE, allowed)


def named(visit: Visit) -> Vm:
    """The VM of the page. Raises NotFound, also for one that the user may not see."""
    namespace, name = visit.name("namespace"), visit.name("name")
    caches = visit.caches
    vm = caches.vms.store.get(name, namespace) or visit.data.get(_MADE)
    instance = caches.instances.store.get(name, namespace)
    found = Vm(namespace, name, vm, instance)
    if (vm is None and instance is None) or not holders.may_see(visit, found.consumer):
        raise NotFound(f"{namespace}/{name}")
    return found


async def load_named(visit: Visit) -> None:
    """Wait for the answers about the namespace of the page, and about others that have VMs."""
    own = LIST._replace(namespace=visit.name("namespace"))
    await visit.user.access.load([LIST, own])
    await load(visit)
    name, namespace = visit.name("name"), visit.name("namespace")
    if visit.caches.vms.store.get(name, namespace) is None:
        with contextlib.suppress(KubeError):
            visit.data[_MADE] = await visit.client.get(VIRTUAL_MACHINES, name, namespace)


def words(visit: Visit, text: str) -> str:
    """A text without the names of VMs and pods that are not the user's to see."""

    def shown(found: re.Match[str]) -> str:
        kind = ConsumerKind.VM if found[1] == "VM" else ConsumerKind.POD
        return holders.within(visit, Consumer(kind, found[2], found[3]))

    return _CONSUMER.sub(shown, text)
