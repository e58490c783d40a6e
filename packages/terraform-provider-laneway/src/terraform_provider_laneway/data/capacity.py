"""`laneway_capacity`: which devices are free, and whether VMs could start with some."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.changes.errors import installed
from laneway.cli import fleet
from laneway.cli.capacity_question import MOST
from laneway.cli.errors import Failure
from laneway.controllers.ledger.snapshot import look
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.question import Request
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.views.capacity import shortages, shown
from laneway.views.capacity_document import Creatable, creatable, stocks_document
from laneway.views.gpus import node_of
from terraform_provider_laneway import mistakes
from terraform_provider_laneway.data_source import DataSource
from terraform_provider_laneway.problems import ProblemError
from terraform_provider_laneway.values import (
    COUNTS,
    FLAG,
    NUMBER,
    TEXT,
    TEXT_SET,
    TEXTS,
    State,
    objects,
)

_NUMBERS = (
    "total",
    "healthy",
    "held",
    "reserved",
    "wanted",
    "free",
    "unhealthy",
    "creatable",
)


class Capacity(DataSource):
    """The devices of the cluster by resource and node."""

    name: ClassVar[str] = "capacity"
    about: ClassVar[str] = (
        "The devices of the cluster by resource and node, as `laneway capacity` shows them, and "
        "whether VMs could start with some."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute("nodes", TEXT_SET, optional=True, description="Only these nodes. Default: all."),
        Attribute(
            "request",
            COUNTS,
            optional=True,
            description="How many devices of each resource a VM requests.",
        ),
        Attribute(
            "vms", NUMBER, optional=True, description="How many VMs request that. Default: 1."
        ),
        Attribute(
            "resources",
            objects(node=TEXT, resource=TEXT, closed=TEXT, **dict.fromkeys(_NUMBERS, NUMBER)),
            computed=True,
            description="The devices of each resource on each node, by their states. `creatable` "
            "is how many more vGPUs the GPUs of the node have room for, null where GPUs may not be "
            "listed. `closed` is why nothing can start on the node.",
        ),
        Attribute(
            "free", COUNTS, computed=True, description="How many devices of each resource are free."
        ),
        Attribute(
            "creatable",
            COUNTS,
            computed=True,
            description="How many more vGPUs of each resource GPUs have room for, of each as if "
            "only it were added; null where GPUs may not be listed.",
        ),
        Attribute(
            "fits",
            FLAG,
            computed=True,
            description="Whether the VMs of `request` could start. Without it: whether each VM has "
            "the devices that it requests.",
        ),
        Attribute("refusals", TEXTS, computed=True, description="Why not."),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        found = mistakes.requests(config, "request", MOST)
        return found + mistakes.number(config, "vms", 1, MOST)

    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        with installed("PCIDeviceClaim"):
            seen = await look(client)
        unknown += seen.unknown
        ledger = build(seen.facts)
        nodes = tuple(config.get("nodes") or ())
        stocks = shown(ledger, nodes)
        free: Counter[str] = Counter()
        for stock in stocks:
            free[stock.resource] += stock.counts.free
        requested = config.get("request")
        if requested is None:
            refusals = list(shortages(ledger))
        else:
            asked = Request(resources=requested, vms=config.get("vms") or 1, nodes=nodes)
            refusals = [one.words for one in can_start(ledger, asked).refusals]
        more = await _creatable(client, nodes)
        plain = stocks_document(ledger, stocks, more)["resources"]
        room: Counter[str] = Counter()
        for (_, resource), count in (more or {}).items():
            room[resource] += count
        fields = ("node", "resource", "closed", *_NUMBERS)
        return {
            "resources": [{name: one[name] for name in fields} for one in plain],
            "free": dict(free),
            "creatable": None if more is None else dict(room),
            "fits": not refusals,
            "refusals": refusals,
        }


async def _creatable(client: Client, nodes: tuple[str, ...]) -> Creatable | None:
    """The vGPUs that GPUs of these nodes have room for; None where GPUs may not be listed."""
    try:
        gpus = await fleet.devices(client)
    except (ForbiddenError, Failure):
        return None
    return creatable(gpu for gpu in gpus if not nodes or node_of(gpu) in nodes)
