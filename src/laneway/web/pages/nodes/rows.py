"""Nodes as rows of a table. What is counted for a node is counted where its row is shown."""

from __future__ import annotations

import functools
from collections.abc import Collection

from laneway.controllers.ledger.nodes import has_kubelet
from laneway.core import keys
from laneway.views.order import natural
from laneway.views.troubles import NO_AGENT, NODE_GONE, Weight
from laneway.web.caches import NODE, Caches, Node
from laneway.web.standing import Standing
from laneway.web.tables.table import Column, Filter, Option, Table
from laneway.web.visit import Visit

STATES = ("gone", "closed", "no_agent", "cordoned", "no_kubelet", "ready")
"""The worst first."""
SIGNS = {"ready": "success", "cordoned": "off", "no_kubelet": "off"}
_WRONG = (Weight.FAILED, Weight.DEGRADED)


class Row:
    """What the cluster knows of a node."""

    def __init__(self, caches: Caches, now: Standing, seen: Collection[str], name: str) -> None:
        """`seen`: the caches whose objects the user may see; of others nothing is counted."""
        self.name = name
        self._caches, self._now, self._seen = caches, now, seen

    @functools.cached_property
    def node(self) -> Node | None:
        """None for one that the cluster does not have any more."""
        return self._caches.nodes.store.get(self.name)

    @functools.cached_property
    def state(self) -> str:
        """One of `STATES`."""
        for trouble in self._now.of_nodes().get(self.name, ()):
            if trouble.reason == NODE_GONE:
                return "gone"
            if trouble.reason == NO_AGENT:
                return "no_agent"
            return "closed" if trouble.weight is Weight.FAILED else "cordoned"
        return "ready" if self.node is None or has_kubelet(self.node) else "no_kubelet"

    @property
    def sign(self) -> str:
        return SIGNS.get(self.state, "danger")

    @functools.cached_property
    def has_agent(self) -> bool:
        return self.name in self._now.agents()

    @property
    def gpus(self) -> int:
        return self._count("gpus")

    @property
    def vgpus(self) -> int:
        return self._now.configured[self.name] if "vgpus" in self._seen else 0

    @property
    def devices(self) -> int:
        return self._count("pci")

    def _count(self, kind: str) -> int:
        store = self._caches.all[kind].store
        return len(store.by(NODE, self.name)) if kind in self._seen else 0

    @property
    def kernel(self) -> str:
        return self.node.status.node_info.kernel_version if self.node else ""

    @property
    def drivers(self) -> list[str]:
        """The kernel drivers of its GPUs."""
        if not {"gpus", "pci"}.issubset(self._seen):
            return []
        store = self._caches.pci.store
        gpus = self._caches.gpus.store.by(NODE, self.name)
        cards = (store.get(gpu.metadata.name) for gpu in gpus)
        return sorted({card.status.kernel_driver_in_use for card in cards if card} - {""})

    @property
    def frameworks(self) -> list[str]:
        """How the driver makes vGPUs here."""
        if "vgpus" not in self._seen:
            return []
        vgpus = self._caches.vgpus.store.by(NODE, self.name)
        return sorted({one.status.framework for one in vgpus} - {""})

    @property
    def is_driver_requested(self) -> bool:
        """Whether its label has the driver installed there."""
        labels = self.node.metadata.labels if self.node else {}
        return labels.get(keys.LABEL_DRIVER_NEEDED) == "true"

    @functools.cached_property
    def problems(self) -> int:
        found = self._now.of_node(self.name, self._seen)
        return sum(one.trouble.weight in _WRONG for one in found)


def table(visit: Visit) -> Table[Row]:
    """Its columns and filters."""
    texts = visit.texts
    return Table(
        columns=[
            Column("state", texts("nodes.state"), order=lambda row: STATES.index(row.state)),
            Column("name", texts("nodes.name"), order=lambda row: _natural(row.name)),
            Column("gpus", texts("nav.gpus"), order=lambda row: row.gpus, number=True),
            Column("vgpus", texts("nodes.vgpus"), order=lambda row: row.vgpus, number=True),
            Column("devices", texts("nodes.devices"), order=lambda row: row.devices, number=True),
            Column("kernel", texts("nodes.kernel"), order=lambda row: _natural(row.kernel)),
            Column("driver", texts("nodes.driver")),
            Column("agent", texts("nodes.agent"), order=lambda row: row.has_agent),
            Column(
                "problems", texts("nodes.problems"), order=lambda row: row.problems, number=True
            ),
        ],
        key=lambda row: row.name,
        text=lambda row: f"{row.name} {row.kernel}",
        order=lambda row: _natural(row.name),
        filters=[
            Filter(
                "state",
                texts("nodes.state"),
                values=lambda row: (row.state,),
                options=lambda: [Option(one, texts(f"nodes.state_{one}")) for one in STATES],
                groups=True,
            ),
            Filter(
                "with",
                texts("nodes.with"),
                values=_has,
                options=lambda: [Option(one, texts(f"nodes.with_{one}")) for one in _WITH],
            ),
        ],
    )


_WITH = ("gpus", "vgpus", "problems")


def _has(row: Row) -> list[str]:
    return [one for one in _WITH if getattr(row, one)]


_natural = functools.lru_cache(maxsize=20_000)(natural)
