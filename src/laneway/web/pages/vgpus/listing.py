"""vGPU devices: every function that carries a vGPU or can carry one."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import VGPUDevice, find_condition
from laneway.controllers.devices.holder import holder
from laneway.core.phrases import short_name
from laneway.kube.resource import served
from laneway.views.order import natural
from laneway.web.access import question
from laneway.web.caches import NODE, Change
from laneway.web.page import Action, Context, Page
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Visit

LIST = question("list", served(VGPUDevice))

STATES = ("enabled", "progress", "failed", "disabled", "exhausted")


def state(vgpu: VGPUDevice) -> str:
    """One of `STATES`."""
    if not vgpu.spec.enabled and not vgpu.status.vgpu_status:
        return "disabled" if vgpu.status.available_types else "exhausted"
    ready = find_condition(vgpu.status.conditions, "Ready")
    if ready is None or ready.observed_generation < vgpu.metadata.generation:
        return "progress"
    return "enabled" if ready.status == "True" else "failed"


def _table(visit: Visit) -> Table[VGPUDevice]:
    texts = visit.texts

    def options_of_nodes() -> Sequence[Option]:
        nodes = sorted(map(str, visit.caches.vgpus.store.values(NODE)), key=natural)
        return [Option(node, node) for node in nodes]

    return Table(
        columns=[
            Column("state", texts("vgpus.state"), order=lambda one: STATES.index(state(one))),
            Column("name", texts("vgpus.name"), order=lambda one: natural(one.metadata.name)),
            Column("profile", texts("vgpus.profile"), order=_profile),
            Column("node", texts("vgpus.node"), order=lambda one: natural(one.spec.node_name)),
            Column("address", texts("vgpus.address"), order=lambda one: one.spec.address),
            Column(
                "holder", texts("vgpus.holder"), order=lambda one: holder(one.status.allocation)
            ),
        ],
        key=lambda one: one.metadata.name,
        text=lambda one: f"{one.metadata.name} {_profile(one)} {holder(one.status.allocation)}",
        order=lambda one: (natural(one.spec.node_name), one.spec.address),
        filters=[
            Filter(
                "node",
                texts("vgpus.node"),
                values=lambda one: (one.spec.node_name,),
                options=options_of_nodes,
                groups=True,
            ),
            Filter(
                "state",
                texts("vgpus.state"),
                values=lambda one: (state(one),),
                options=lambda: [Option(one, texts(f"vgpus.state_{one}")) for one in STATES],
                groups=True,
            ),
        ],
    )


def _profile(vgpu: VGPUDevice) -> str:
    return short_name(vgpu.status.configure_vgpu_type_name)


def _rows(visit: Visit) -> Rows[VGPUDevice]:
    """Kept, because a cluster can have a hundred thousand."""
    store = visit.caches.vgpus.store

    def touched(change: Change) -> tuple[str, ...]:
        return (change.key.name,) if change.kind == "vgpus" else ()

    return visit.site.rows(
        "vgpus",
        lambda: _table(visit).rows(
            keys=[one.metadata.name for one in store],
            build=store.get,
            touched=touched,
            indexed=["node", "state"],
        ),
    )


def _context(visit: Visit) -> Context:
    table, rows = _table(visit), _rows(visit)
    view = table.view(rows, visit.place)
    return {
        "table": view,
        "state": state,
        "holder": holder,
        "profile": _profile,
        "concerns": concerns_rows(view, rows),
    }


PAGES = (
    Page(
        "/vgpus",
        "vgpus.html",
        _context,
        kinds=frozenset({"vgpus"}),
        title="nav.vgpus",
        needs=(LIST,),
    ),
)
ACTIONS: tuple[Action, ...] = ()
