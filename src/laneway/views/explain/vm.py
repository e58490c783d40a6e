"""What is known about a VM: its devices, and whether it can start, by the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from laneway.core.ledger.answer import can_start
from laneway.core.ledger.facts import Consumer, Demand, Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Answer, Request
from laneway.views.capacity import answer_words
from laneway.views.explain.object import Json, conditions, event_lines
from laneway.views.page import Fact, Page, Section, fact
from laneway.views.vms import devices_of

_PHASES = {
    Phase.RUNNING: "running",
    Phase.PENDING: "about to start",
    Phase.STOPPED: "stopped",
}


def _request(demand: Demand) -> Request:
    """The start of one VM like it, while it is not there."""
    return Request(
        resources=demand.requests,
        nodes=(demand.node,) if demand.node else (),
        selector=demand.selector,
        replacing=(demand.consumer,),
    )


class Vm(NamedTuple):
    """What was found out about a VM."""

    stored: Json
    """Its VirtualMachine as it is stored."""
    ledger: Ledger
    consumer: Consumer
    events: Sequence[Json] = ()
    unknown: tuple[str, ...] = ()
    """What could not be read, and so is missing here."""


def explain_vm(vm: Vm) -> Page:
    """The VM, its devices, and whether it can start."""
    stored, ledger, consumer, events, unknown = vm
    status = stored.get("status") or {}
    return Page(
        f"VirtualMachine {consumer.namespace}/{consumer.name}",
        (
            Section("In short", tuple(_brief(status, ledger, consumer))),
            Section("Devices", lines=tuple(device_lines(ledger, consumer))),
            Section("Can it start?", lines=tuple(can_start_lines(ledger, consumer))),
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


def device_lines(ledger: Ledger, consumer: Consumer) -> Iterator[str]:
    """A line for each of its devices."""
    for one in sorted(devices_of(consumer, ledger)):
        yield f"{one.how}: {one.name} ({one.resource}) on {one.node}"


def start_answer(
    ledger: Ledger, consumer: Consumer, naming: Callable[[Consumer], str] = str
) -> Answer | None:
    """Whether it could start now; None where it requests no device. `naming` as in `can_start`."""
    demand = ledger.demands.get(consumer)
    return None if demand is None else can_start(ledger, _request(demand), naming)


def can_start_lines(ledger: Ledger, consumer: Consumer) -> Iterator[str]:
    """The same in words, and why it cannot."""
    demand = ledger.demands.get(consumer)
    answer = start_answer(ledger, consumer)
    if demand is None or answer is None:
        yield "It needs no device of Laneway."
    elif demand.phase is Phase.RUNNING:
        yield "It runs."
    elif answer.yes:
        yield "Yes."
    else:
        yield "No."
        yield from answer_words(answer)


def document(ledger: Ledger, consumer: Consumer) -> dict[str, Any]:
    """The same for programs."""
    demand = ledger.demands.get(consumer)
    answer = start_answer(ledger, consumer)
    return {
        "namespace": consumer.namespace,
        "name": consumer.name,
        "phase": None if demand is None else str(demand.phase),
        "node": "" if demand is None else demand.node,
        "requests": {} if demand is None else dict(demand.requests),
        "devices": [
            {"node": one.node, "resource": one.resource, "name": one.name, "state": str(one.how)}
            for one in sorted(devices_of(consumer, ledger))
        ],
        "canStart": None if answer is None else answer.yes,
        "refusals": [
            {"reason": refusal.reason, "message": refusal.words}
            for refusal in (() if answer is None else answer.refusals)
        ],
    }
