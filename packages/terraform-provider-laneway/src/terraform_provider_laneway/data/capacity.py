"""`laneway_capacity`: which devices are free, and whether VMs could start with some."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.changes.errors import installed
from laneway.cli.capacity_question import MOST
from laneway.controllers.ledger.snapshot import look
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.question import Request
from laneway.kube.client import Client
from laneway.views.capacity import plain_stocks, shortages, shown
from terraform_provider_laneway.data_source import DataSource
from terraform_provider_laneway.problems import ProblemError
from terraform_provider_laneway.resource import counts_in
from terraform_provider_laneway.values import (
    COUNTS,
    FLAG,
    NUMBER,
    TEXT,
    TEXT_SET,
    TEXTS,
    State,
    is_unknown,
    objects,
)

_NUMBERS = ("total", "held", "reserved", "wanted", "free", "unhealthy")


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
            description="The devices of each resource on each node, by their states. `closed` is "
            "why nothing can start on the node.",
        ),
        Attribute(
            "free", COUNTS, computed=True, description="How many devices of each resource are free."
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
        found = counts_in(config, "request", MOST)
        vms = config.get("vms")
        if (
            vms is not None
            and not is_unknown(vms)
            and not (isinstance(vms, int) and 0 < vms <= MOST)
        ):
            words = f"Write a whole number from 1 to {MOST}."
            found.append(ProblemError("Invalid number", words, ["vms"]))
        return found

    async def found(self, client: Client, config: State) -> State:
        with installed("PCIDeviceClaim"):
            seen = await look(client)
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
        plain = plain_stocks(ledger, stocks, devices=False)["resources"]
        fields = ("node", "resource", "closed", *_NUMBERS)
        return {
            "resources": [{name: one[name] for name in fields} for one in plain],
            "free": dict(free),
            "fits": not refusals,
            "refusals": refusals,
        }
