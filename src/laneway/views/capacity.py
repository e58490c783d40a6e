"""The devices of the cluster by resource and node, and whether VMs can start, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from laneway.api import SRIOVGPUDevice
from laneway.core import names
from laneway.core.ledger.explain import devices_on
from laneway.core.ledger.facts import Demand, Phase
from laneway.core.ledger.ledger import Entry, Ledger, Shortage, State, Stock
from laneway.core.ledger.question import Answer, Request
from laneway.core.phrases import several
from laneway.views.gpus import node_of
from laneway.views.order import natural

_LISTED = 12
_HOW = {
    State.HELD: "held by",
    State.RESERVED: "reserved by the stopped",
    State.WANTED: "requested by",
}


def shown(ledger: Ledger, nodes: Collection[str]) -> list[Stock]:
    """The stocks of these nodes, of all where none is named, in the order of people."""
    found = [stock for stock in ledger.stocks.values() if not nodes or stock.node in nodes]
    return sorted(found, key=lambda stock: (natural(stock.node), natural(stock.resource)))


def taken_words(stock: Stock) -> tuple[str, ...]:
    """A line for every VM or pod that has devices of a stock."""
    taken = devices_on(stock).taken
    return tuple(taken.split("; ")) if taken else ()


def device_words(entry: Entry) -> str:
    """The state of one device of a stock, and its holder."""
    if entry.consumer is None:
        return f"{entry.state}: {entry.unhealthy}" if entry.unhealthy else str(entry.state)
    described = f"{_HOW[entry.state]} {entry.consumer}"
    return f"{described}; {entry.unhealthy}" if entry.unhealthy else described


def shortages(ledger: Ledger) -> Iterator[str]:
    """A line for every VM or pod whose devices the cluster does not have."""
    return map(shortage_words, ledger.shortages)


def shortage_words(short: Shortage) -> str:
    """What is missing for one of them."""
    missing = _each(short.missing)
    if short.phase is Phase.STOPPED:
        return f"{short.consumer} is stopped and cannot start: the cluster lacks {missing}"
    return f"{short.consumer} cannot start: the cluster lacks {missing}"


def starting_words(demand: Demand) -> str:
    """What one that has all of its devices is about to start with."""
    where = f" on node {demand.node}" if demand.node else ""
    return f"{demand.consumer} is about to start{where} with {_each(demand.requests)}"


def _each(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(resources.items()))


def report(request: Request, answer: Answer) -> list[str]:
    """The answer in lines."""
    lines = [_brief(request, answer)]
    lines += answer_words(answer)
    if answer.kept:
        stay = "stays as it is" if answer.kept == 1 else "stay as they are"
        lines.append(f"  {answer.kept} of {answer.vms} {stay}")
    if answer.room:
        lines.append(f"  room on {_room(answer)}")
    lines += [
        f"  requests {abs(count)} x {resource} {'more' if count > 0 else 'less'} than now"
        for resource, count in answer.change
    ]
    return lines


def answer_words(answer: Answer) -> list[str]:
    """Why not all of the VMs can start; nothing where they can."""
    return [f"  {refusal.reason}: {refusal.words}" for refusal in answer.refusals]


def _brief(request: Request, answer: Answer) -> str:
    each = _each(request.resources)
    every = "each " if answer.vms != 1 else ""
    asked = f"{_vms(answer.vms)} {every}with {each}"
    if answer.yes:
        return f"Yes: there is room for {asked}."
    able = answer.kept + answer.started
    if answer.vms == 1:
        return f"No: there is no room for {asked}."
    return f"No: of {asked} there is room for {able}."


def _vms(count: int) -> str:
    return f"{count} VM{'s' if count != 1 else ''}"


def _room(answer: Answer) -> str:
    parts = [f"{node} for {count}" for node, count in answer.room[:_LISTED]]
    more = len(answer.room) - _LISTED
    return ", ".join(parts) + (f" and on {more} more nodes" if more > 0 else "")


def plain_answer(request: Request, answer: Answer) -> dict[str, Any]:
    """The question and the answer for programs."""
    return {
        "answer": answer.yes,
        "resources": dict(request.resources),
        "vms": answer.vms,
        "kept": answer.kept,
        "started": answer.started,
        "room": dict(answer.room),
        "change": dict(answer.change),
        "refusals": [
            {"reason": refusal.reason, "message": refusal.words} for refusal in answer.refusals
        ],
    }


def to_configure(request: Request, ledger: Ledger, gpus: Sequence[SRIOVGPUDevice]) -> Iterator[str]:
    """For each profile that no GPU has yet, an empty GPU with room for it."""
    for resource, count in request.resources.items():
        if resource in ledger.homes:
            continue
        for gpu in gpus:
            profile = _offered_as(resource, gpu)
            if gpu.status.fits.get(profile, 0) >= count and not gpu.status.configured:
                title = f"{node_of(gpu)}/{gpu.spec.address}"
                command = f"laneway vgpu set {title} {several(profile, count)}"
                yield f"  {title} has room: {command}"
                break


def _offered_as(resource: str, gpu: SRIOVGPUDevice) -> str:
    """The profile of a resource, as the driver of a GPU calls it; empty where it offers none."""
    fits = gpu.status.fits
    return next((one for one in fits if names.vgpu_resource_name(one) == resource), "")
