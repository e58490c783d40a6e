"""What is not as it should be, and what happened last, as lines with a link.

Objects of kinds that the user may not list are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import (
    DeviceNode,
    HostPolicy,
    HostPreparation,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.kube.resource import Resource, served
from laneway.views.troubles import Weight
from laneway.web.access import Question, question
from laneway.web.place import link
from laneway.web.standing import NAMED_AS_NODE, Found, Happened, counted, worst
from laneway.web.visit import Visit

_SERVED: Mapping[str, Resource[Any]] = {
    "device_nodes": served(DeviceNode),
    "gpus": served(SRIOVGPUDevice),
    "vgpus": served(VGPUDevice),
    "migs": served(MigConfiguration),
    "layouts": served(VGPULayout),
    "pci": served(PCIDevice),
    "claims": served(PCIDeviceClaim),
    "networks": served(SRIOVNetworkDevice),
    "usb": served(USBDevice),
    "usb_claims": served(USBDeviceClaim),
    "policies": served(HostPolicy),
    "preparations": served(HostPreparation),
}
LISTS: Mapping[str, Question] = {
    "nodes": Question("list", "", "nodes"),
    **{kind: question("list", resource) for kind, resource in _SERVED.items()},
}
"""The right to see the objects of a cache."""
_PAGES = {
    "nodes": "nodes",
    "device_nodes": "nodes",
    "gpus": "gpus",
    "vgpus": "vgpus",
    "migs": "mig",
    "pci": "pci",
    "networks": "networks",
    "usb": "usb",
    "preparations": "nodes",
}
"""Where an object has a page of its own; the others are shown as any object."""

_SIGNS = {
    Weight.FAILED: "danger",
    Weight.DEGRADED: "warning",
    Weight.WORKING: "working",
    Weight.NOTED: "info",
}


class Problem(NamedTuple):
    """An object that is not as it should be."""

    sign: str
    kind: str
    name: str
    url: str
    node: str
    reason: str
    message: str


class Event(NamedTuple):
    """A condition of an object that has changed."""

    sign: str
    moment: str
    kind: str
    name: str
    url: str
    text: str
    message: str
    more: int
    """To how many other objects of the node the same happened."""


def visible(visit: Visit) -> frozenset[str]:
    """The caches whose objects the user may see."""
    return frozenset(kind for kind, asked in LISTS.items() if visit.may(asked))


def url_of(kind: str, name: str) -> str:
    """The page of an object."""
    if kind in _PAGES:
        return link(_PAGES[kind], name)
    return link("objects", _SERVED[kind].plural, name)


def _problem(visit: Visit, found: Found) -> Problem:
    """One line."""
    trouble = found.trouble
    return Problem(
        _SIGNS[trouble.weight],
        visit.texts(f"problems.{found.kind}"),
        found.key.name,
        url_of(found.kind, found.key.name),
        "" if found.kind in NAMED_AS_NODE else found.node,
        trouble.reason,
        trouble.message,
    )


def event(visit: Visit, one: Happened, more: int) -> Event:
    """One line."""
    sign = {"True": "success", "False": "warning"}.get(one.status, "working")
    text = visit.texts("problems.condition", type=one.condition, reason=one.reason or one.status)
    kind = visit.texts(f"problems.{one.kind}")
    name = one.key.name
    return Event(sign, one.moment, kind, name, url_of(one.kind, name), text, one.message, more)


class Problems(NamedTuple):
    """The worst first."""

    lines: Sequence[Problem]
    counts: Sequence[tuple[str, str]]
    """A sign and in words how many there are of a weight."""
    more: int
    """How many there are besides those."""
    hidden: Sequence[str]
    """The kinds of which the user may see none."""


def problems_of(visit: Visit, found: Iterable[Found], most: int) -> Problems:
    """So many of them as lines, and how many there are in all."""
    every = list(found)
    lines = [_problem(visit, one) for one in worst(every, most)]
    counts = [
        (_SIGNS[weight], visit.texts.count(f"problems.{weight.name.lower()}", count))
        for weight, count in sorted(counted(every).items())
    ]
    hidden = sorted(_named(asked) for asked in LISTS.values() if not visit.may(asked))
    return Problems(lines, counts, len(every) - len(lines), hidden)


def _named(asked: Question) -> str:
    """A resource as kubectl takes it: nodes are those of the cluster."""
    is_other = asked.resource == LISTS["nodes"].resource and asked.group
    return f"{asked.resource}.{asked.group}" if is_other else asked.resource
