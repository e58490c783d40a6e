"""The devices of the cluster by resource and node as one document, the same for every program.

`laneway capacity -o json` prints it, and the web interface answers with it. Its fields are public:
docs/reference/output.md has their meanings.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from laneway.api import SRIOVGPUDevice
from laneway.core import names
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Counts, Ledger, State, Stock
from laneway.views.gpus import node_of
from laneway.views.order import natural

Creatable = Mapping[tuple[str, str], int]
"""How many more vGPUs could be created, by node and resource: of each as if only it were added."""
Sees = Callable[[Consumer], bool]
"""Whether a VM or pod may be named."""


def creatable_on(gpu: SRIOVGPUDevice) -> Mapping[str, int]:
    """How many more vGPUs of each resource a GPU could have, where it could have some."""
    return {_resource_of(profile): count for profile, count in gpu.status.fits.items() if count > 0}


def creatable(gpus: Iterable[SRIOVGPUDevice]) -> Creatable:
    """The same of all GPUs."""
    found: Counter[tuple[str, str]] = Counter()
    for gpu in gpus:
        for resource, count in creatable_on(gpu).items():
            found[node_of(gpu), resource] += count
    return found


_resource_of = functools.lru_cache(maxsize=4096)(names.vgpu_resource_name)


def stocks_document(
    ledger: Ledger,
    stocks: Sequence[Stock],
    creatable: Creatable | None,
    *,
    devices: bool = False,
    sees: Sees = lambda _: True,
) -> dict[str, Any]:
    """The document. `creatable` is of the same nodes as the stocks; None: not known."""
    rows = [_of_stock(stock, creatable, sees, devices=devices) for stock in stocks]
    there = {(stock.node, stock.resource) for stock in stocks}
    others = None if creatable is None else _others(creatable, there)
    return {
        "resources": rows,
        "types": _types(rows, others or ()),
        "creatable": others,
        "short": [
            {
                **plain_consumer(_named(short.consumer, sees)),
                "phase": str(short.phase),
                "missing": dict(short.missing),
            }
            for short in ledger.shortages
        ],
    }


def free_by_type(ledger: Ledger) -> dict[str, str]:
    """What `deviceCapacity` of Harvester is meant to be: how many a new VM can get, as quantities.

    Harvester subtracts what VMs name from all that is allocatable. It counts nodes on which nothing
    can start, and can come below 0. Here a device counts that is free now, or none.
    """
    return {resource: str(sum(ledger.free.get(resource, {}).values())) for resource in ledger.homes}


def plain_consumer(consumer: Consumer) -> Mapping[str, str | None]:
    """Kind, namespace and name; None for what may not be named."""
    return {
        "kind": str(consumer.kind),
        "namespace": consumer.namespace or None,
        "name": consumer.name or None,
    }


def _named(consumer: Consumer, sees: Sees) -> Consumer:
    return consumer if sees(consumer) else Consumer(consumer.kind, "", "")


def _numbers(counts: Counts, healthy: int, creatable: int | None) -> dict[str, int | None]:
    states = {str(state): getattr(counts, state) for state in State}
    return {"total": counts.total, "healthy": healthy, **states, "creatable": creatable}


_KEYS = tuple(_numbers(Counts(), 0, 0))


def _of_stock(
    stock: Stock, creatable: Creatable | None, sees: Sees, *, devices: bool
) -> dict[str, Any]:
    more = None if creatable is None else creatable.get((stock.node, stock.resource), 0)
    healthy = sum(not device.unhealthy for device in stock.devices)
    holders = Counter((one.state, _named(one.consumer, sees)) for one in stock.taken.values())
    found: dict[str, Any] = {
        "node": stock.node,
        "resource": stock.resource,
        **_numbers(stock.counts, healthy, more),
        "closed": stock.closed,
        "holders": [
            {**plain_consumer(consumer), "state": str(state), "devices": count}
            for (state, consumer), count in sorted(holders.items())
        ],
    }
    if devices:
        found["devices"] = [
            {
                "name": entry.device.name,
                "state": str(entry.state),
                "unhealthy": entry.unhealthy,
                "holder": None
                if entry.consumer is None
                else plain_consumer(_named(entry.consumer, sees)),
            }
            for entry in stock.entries()
        ]
    return found


def _others(creatable: Creatable, there: Container[tuple[str, str]]) -> list[dict[str, Any]]:
    """What could be created where there is no such device yet."""
    found = [
        {"node": node, "resource": resource, "creatable": count}
        for (node, resource), count in creatable.items()
        if (node, resource) not in there
    ]
    return sorted(found, key=lambda one: (natural(one["node"]), natural(one["resource"])))


def _types(
    rows: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The sums over nodes, also of what no node has yet."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        of_type = found.setdefault(row["resource"], {"resource": row["resource"]})
        for key in _KEYS:
            # All of them know what could be created, or none does.
            of_type[key] = None if row[key] is None else of_type.get(key, 0) + row[key]
    for row in others:
        nothing = {"resource": row["resource"], **_numbers(Counts(), 0, 0)}
        found.setdefault(row["resource"], nothing)["creatable"] += row["creatable"]
    return sorted(found.values(), key=lambda row: natural(row["resource"]))
