"""The rows of the table of VMs, kept for all users.

A cluster can have tens of thousands, and with each new ledger their page is drawn again. Nothing in
a row depends on a user; a look takes the rows of the namespaces that its user may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from laneway.kube.resource import Key
from laneway.views.order import natural
from laneway.views.vms import Vm, requests
from laneway.web.caches import Change
from laneway.web.pages.gpus.states import ordered
from laneway.web.tables.rows import Rows
from laneway.web.visit import Site

NAMESPACE = "namespace"
"""The filter by which a look takes the rows that its user may see."""


def resources(one: Vm) -> Sequence[str]:
    """The resources that a VM requests."""
    return tuple(requests(one.spec.domain.devices.all))


FILTERS: Mapping[str, Callable[[Vm], Iterable[str]]] = {
    NAMESPACE: lambda one: (one.namespace,),
    "state": lambda one: (one.state,),
    "node": lambda one: (one.node,),
    "resource": resources,
}
"""What rows are selected by: the values of a VM, by the name of the filter."""


def text(one: Vm) -> str:
    """What the search looks at."""
    return " ".join((one.namespace, one.name, one.node, *resources(one)))


def order(one: Vm) -> tuple[object, ...]:
    """The order of rows."""
    return ordered(one.namespace), natural(one.name)


def keep(site: Site) -> Rows[Vm]:
    """A row for each VM, and for each instance without a VM, by its key."""
    vms, instances = site.caches.vms.store, site.caches.instances.store

    def build(key: Key) -> Vm | None:
        vm, instance = vms.at(key), instances.at(key)
        found = vm is not None or instance is not None
        return Vm(key.namespace, key.name, vm, instance) if found else None

    def touched(change: Change) -> Iterator[Key]:
        if change.kind in ("vms", "instances"):
            yield change.key

    def made() -> Rows[Vm]:
        keys = vms.keys() | instances.keys()
        return Rows(keys, build, touched, order=order, text=text, indexed=FILTERS)

    return site.rows("vms", made)
