"""SR-IOV network devices: how many virtual functions a network card has, and their holders.

Another number resets the card and begins with no virtual function, so a single one in use prevents
every change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from laneway.admission.rules.network import RULES
from laneway.api import PCIDevice, SRIOVNetworkDevice, find_condition
from laneway.changes import specs
from laneway.changes.answered import words_of
from laneway.core import keys, names
from laneway.core.pci import pci_address
from laneway.kube.errors import ForbiddenError, InvalidError
from laneway.kube.resource import served
from laneway.views.answers import answer_of
from laneway.views.gpus import staleness
from laneway.web import holders, judged
from laneway.web.access import question
from laneway.web.caches import NODE, Change
from laneway.web.claiming.rows import Row, by_name, options, speaks_of
from laneway.web.page import Action, Again, Context, Done, NotFound, Page
from laneway.web.pages.pci.family import row_of
from laneway.web.place import link
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Visit

_CARDS = served(SRIOVNetworkDevice)
LIST, PATCH = question("list", _CARDS), question("patch", _CARDS)

STATES = ("failed", "progress", "enabled", "disabled")
SIGNS = {"failed": "danger", "progress": "working", "enabled": "success", "disabled": "off"}


def state(card: SRIOVNetworkDevice) -> str:
    """One of `STATES`."""
    answer = answer_of(card.status, card.metadata.generation)
    if answer.kind == "done":
        return "enabled" if card.spec.num_vfs else "disabled"
    return "failed" if answer.kind == "refused" else "progress"


def why(card: SRIOVNetworkDevice) -> str:
    """Why the card is not as desired, or what it waits for."""
    ready = find_condition(card.status.conditions, "Ready")
    return ready.message if ready is not None and ready.status != "True" else ""


def interface(card: SRIOVNetworkDevice) -> str:
    return card.metadata.annotations.get(keys.ANNOTATION_INTERFACE, "")


class Card(NamedTuple):
    """A card as it is shown."""

    card: SRIOVNetworkDevice
    functions: int
    most: int | None
    """Functions that it can have; None while that is not known."""
    claimed: int


def _device(visit: Visit, card: SRIOVNetworkDevice) -> PCIDevice | None:
    address = pci_address(card.spec.address)
    if address is None:
        return None
    return visit.caches.pci.store.get(names.pci_object_name(card.spec.node_name, address))


def _seen(visit: Visit, card: SRIOVNetworkDevice) -> Card:
    device = _device(visit, card)
    sriov = device.status.sriov if device is not None else None
    functions = card.status.vf_pci_devices
    claims = visit.caches.claims.store
    claimed = sum(claims.get(name) is not None for name in functions)
    most = sriov.total_vfs if sriov is not None else None
    return Card(card, len(card.status.vf_addresses), most, claimed)


# ------------------------------------------------------------------------------------------- list


def _table(visit: Visit) -> Table[SRIOVNetworkDevice]:
    texts, caches = visit.texts, visit.caches
    return Table(
        columns=[
            Column("state", texts("networks.state"), lambda one: STATES.index(state(one))),
            Column("name", texts("networks.name"), lambda one: by_name(one.metadata.name)),
            Column("node", texts("networks.node"), lambda one: by_name(one.spec.node_name)),
            Column("interface", texts("networks.interface"), lambda one: by_name(interface(one))),
            Column("address", texts("networks.address"), lambda one: one.spec.address),
            Column("vfs", texts("networks.functions"), lambda one: one.spec.num_vfs, number=True),
            Column("claimed", texts("networks.claimed"), number=True),
        ],
        key=lambda one: one.metadata.name,
        text=lambda one: f"{one.metadata.name} {one.spec.node_name} {one.spec.address}",
        order=lambda one: (by_name(one.spec.node_name), by_name(interface(one))),
        filters=[
            Filter(
                "node",
                texts("networks.node"),
                values=lambda one: (one.spec.node_name,),
                options=lambda: options(map(str, caches.networks.store.values(NODE))),
                groups=True,
            ),
            Filter(
                "state",
                texts("networks.state"),
                values=lambda one: (state(one),),
                options=lambda: [Option(one, texts(f"networks.state_{one}")) for one in STATES],
                groups=True,
            ),
        ],
    )


def _rows(visit: Visit) -> Rows[SRIOVNetworkDevice]:
    store = visit.caches.networks.store

    def touched(change: Change) -> tuple[str, ...]:
        return (change.key.name,) if change.kind == "networks" else ()

    return visit.site.rows(
        "networks",
        lambda: _table(visit).rows(
            keys=[one.metadata.name for one in store],
            build=store.get,
            touched=touched,
            indexed=["node"],
        ),
    )


def _list(visit: Visit) -> Context:
    rows = _rows(visit)
    view = _table(visit).view(rows, visit.place)
    functions = {name for card in view.rows for name in card.status.vf_pci_devices}
    moves = concerns_rows(view, rows)
    return {
        "table": view,
        "state": state,
        "signs": SIGNS,
        "why": why,
        "interface": interface,
        "seen": lambda card: _seen(visit, card),
        "concerns": lambda change: (
            moves(change) or (change.kind == "claims" and change.key.name in functions)
        ),
    }


# -------------------------------------------------------------------------------------- one card


def _named(visit: Visit) -> SRIOVNetworkDevice:
    card = visit.caches.networks.store.get(visit.name("name"))
    if card is None:
        raise NotFound(visit.name("name"))
    return card


def _functions(visit: Visit, card: SRIOVNetworkDevice) -> list[Row]:
    found = (row_of(visit.caches, name) for name in card.status.vf_pci_devices)
    return [row for row in found if row is not None]


def _against(visit: Visit, card: SRIOVNetworkDevice, count: int) -> Sequence[str]:
    """What prevents another number of virtual functions."""
    new = replace(card, spec=replace(card.spec, num_vfs=count))
    verdict = judged.update(visit, RULES, card.metadata.name, card, new)
    return judged.against(visit, PATCH, verdict)


def _one(visit: Visit) -> Context:
    card = _named(visit)
    device = _device(visit, card)
    # The number itself is no obstacle; what is asked is whether it can change at all.
    against = _against(visit, card, 0 if card.spec.num_vfs else 1)
    return {
        "title": card.metadata.name,
        "seen": _seen(visit, card),
        "card": card,
        "is_state": state(card),
        "stale": staleness(visit.caches.nodes.store.get(card.spec.node_name)),
        "signs": SIGNS,
        "why": why(card),
        "interface": interface(card),
        "device": device,
        "functions": _functions(visit, card),
        "holder": lambda row: holders.of_allocation(visit, row.allocation),
        "against": against,
        "may_not": "" if visit.may(PATCH) else against[0],
        "problems": visit.problems,
        "typed": visit.sent("count", str(card.spec.num_vfs)),
        "concerns": _concerns(card),
    }


def _concerns(card: SRIOVNetworkDevice) -> Callable[[Change], bool]:
    functions = set(card.status.vf_pci_devices)
    address = pci_address(card.spec.address)
    if address is not None:
        functions.add(names.pci_object_name(card.spec.node_name, address))

    def shows(change: Change) -> bool:
        name = change.key.name
        if change.kind == "networks":
            return name == card.metadata.name
        if change.kind in ("pci", "claims"):
            return name in functions
        if change.kind == "nodes":
            return name == card.spec.node_name
        return speaks_of(change, functions)

    return shows


async def _prepare(visit: Visit) -> None:
    rows = _functions(visit, _named(visit))
    await holders.load_allocations(visit, (row.allocation for row in rows))


async def _set(visit: Visit) -> Done | Again:
    card, typed = _named(visit), visit.sent("count").strip()
    if not (typed.isascii() and typed.isdecimal() and len(typed) < 6):
        return Again({"count": [visit.texts("networks.not_a_number")]})
    count, name = int(typed), card.metadata.name
    try:
        await specs.write(visit.client, _CARDS, name, {"numVFs": count})
    except (ForbiddenError, InvalidError) as error:
        return Again({"count": [words_of(error)]})
    return Done(link("networks", name), visit.texts.count("networks.set", count, name=name))


_ONE = frozenset({"networks", "pci", "claims", "vms", "instances", "nodes"})
PAGES: tuple[Page, ...] = (
    Page(
        "/networks",
        "networks.html",
        _list,
        kinds=frozenset({"networks", "claims"}),
        title="nav.networks",
        needs=(LIST,),
    ),
    Page(
        "/networks/{name}",
        "networks-one.html",
        _one,
        kinds=_ONE,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
    Page(
        "/networks/{name}/functions",
        "networks-functions.html",
        _one,
        kinds=_ONE,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
ACTIONS: tuple[Action, ...] = (Action("/networks/{name}/functions", _set),)
