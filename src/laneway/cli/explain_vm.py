"""What `laneway explain vm/NAME` says: the devices of a VM, and whether it can start.

The answer comes from the ledger, by the rules of `laneway capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from laneway.cli import cluster, connection, fleet, page
from laneway.cli.capacity_question import answer_words
from laneway.cli.errors import Failure
from laneway.cli.explain_object import conditions, event_lines
from laneway.cli.output import View
from laneway.cli.page import Fact, Page, Section, fact
from laneway.cli.suggest import did_you_mean
from laneway.controllers.ledger.snapshot import look as look_at_ledger
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Phase
from laneway.core.ledger.ledger import Ledger, State
from laneway.core.ledger.question import Answer, Request
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import VIRTUAL_MACHINES

_PHASES = {
    Phase.RUNNING: "running",
    Phase.PENDING: "about to start",
    Phase.STOPPED: "stopped",
}


async def look(client: Client, namespace: str, name: str) -> View:
    """The VM, its devices and its events. Raises Failure."""
    stored = await _stored(client, namespace, name)
    with connection.installed("PCIDeviceClaim"):
        seen = await look_at_ledger(client)
    ledger = build(seen.facts)
    consumer = Consumer(ConsumerKind.VM, namespace, name)
    demand = ledger.demands.get(consumer)
    answer = None if demand is None else can_start(ledger, _request(demand))
    unreadable: list[str] = []
    events = await cluster.events_of(
        client, "VirtualMachine", name, namespace, unreadable=unreadable
    )
    unknown = (*seen.unknown, *fleet.not_listed(unreadable))
    known = _Known(stored, ledger, consumer, answer, events, unknown)
    return page.view(
        _page(known),
        document=_document(ledger, consumer, demand, answer),
        name=f"virtualmachine.kubevirt.io/{name}",
    )


async def _stored(client: Client, namespace: str, name: str) -> dict[str, Any]:
    path = VIRTUAL_MACHINES.path(namespace, name)
    try:
        return await cluster.raw_object(client, path, f"vm/{name}")
    except NotFoundError:
        known = await cluster.names_in(client, VIRTUAL_MACHINES.path(namespace))
    meant = did_you_mean(name, known)
    raise Failure(
        f"namespace {namespace} has no VM {name}. {meant} --namespace chooses another namespace"
    )


def _request(demand: Demand) -> Request:
    """The start of one VM like it, while it is not there."""
    return Request(
        resources=demand.requests,
        nodes=(demand.node,) if demand.node else (),
        selector=demand.selector,
        replacing=(demand.consumer,),
    )


class _Known(NamedTuple):
    """What was found out about a VM."""

    stored: dict[str, Any]
    ledger: Ledger
    consumer: Consumer
    answer: Answer | None
    """None: it requests no device."""
    events: list[cluster.Json]
    unknown: tuple[str, ...]


def _page(known: _Known) -> Page:
    stored, ledger, consumer, answer, events, unknown = known
    status = stored.get("status") or {}
    return Page(
        f"VirtualMachine {consumer.namespace}/{consumer.name}",
        (
            Section("In short", tuple(_brief(status, ledger, consumer))),
            Section("Devices", lines=tuple(_devices(ledger, consumer))),
            Section("Can it start?", lines=tuple(_answer(ledger, consumer, answer))),
            Section("Not known", lines=unknown),
            Section("Conditions", lines=tuple(conditions(status.get("conditions")))),
            Section("Events", lines=tuple(event_lines(events))),
        ),
    )


def _brief(status: dict[str, Any], ledger: Ledger, consumer: Consumer) -> Iterator[Fact]:
    demand = ledger.demands.get(consumer)
    yield fact("status", str(status.get("printableStatus") or ""))
    if demand is None:
        yield fact("requests", "no device")
        return
    yield fact("is", _PHASES[demand.phase])
    yield fact("on node", demand.node)
    requests = sorted(demand.requests.items())
    yield fact("requests", *(f"{count} x {resource}" for resource, count in requests))


def _held(ledger: Ledger, consumer: Consumer) -> Iterator[tuple[str, str, str, State]]:
    """Node, resource and name of each of its devices, and how it has it."""
    for stock in ledger.stocks.values():
        for name, taking in stock.taken.items():
            if taking.consumer == consumer:
                yield stock.node, stock.resource, name, taking.state


def _devices(ledger: Ledger, consumer: Consumer) -> Iterator[str]:
    for node, resource, name, state in sorted(_held(ledger, consumer)):
        yield f"{state}: {name} ({resource}) on {node}"


def _answer(ledger: Ledger, consumer: Consumer, answer: Answer | None) -> Iterator[str]:
    demand = ledger.demands.get(consumer)
    if demand is None or answer is None:
        yield "It needs no device of Laneway."
    elif demand.phase is Phase.RUNNING:
        yield "It runs."
    elif answer.yes:
        yield "Yes."
    else:
        yield "No."
        yield from answer_words(answer)


def _document(
    ledger: Ledger, consumer: Consumer, demand: Demand | None, answer: Answer | None
) -> dict[str, Any]:
    return {
        "namespace": consumer.namespace,
        "name": consumer.name,
        "phase": None if demand is None else str(demand.phase),
        "node": "" if demand is None else demand.node,
        "requests": {} if demand is None else dict(demand.requests),
        "devices": [
            {"node": node, "resource": resource, "name": name, "state": str(state)}
            for node, resource, name, state in sorted(_held(ledger, consumer))
        ],
        "canStart": None if answer is None else answer.yes,
        "refusals": [
            {"reason": refusal.reason, "message": refusal.words}
            for refusal in (() if answer is None else answer.refusals)
        ],
    }
