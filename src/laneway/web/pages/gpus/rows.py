"""GPUs as far as lists filter and sort by them, kept up to date by changes.

What a page of a large cluster needs of each GPU is worked out when the GPU, its card or its node
changes, and not when the page is drawn.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from laneway.api import PCIDevice, PCIDeviceStatus, SRIOVGPUDevice
from laneway.views.gpus import Gpu, node_of, staleness
from laneway.web.caches import NODE, Caches, Change
from laneway.web.pages.gpus.states import ordered, state_of
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Table
from laneway.web.visit import Site

LACKING = frozenset(
    {
        "DriverMissing",
        "GpuUnreadable",
        "NoIommuGroup",
        "NoKubelet",
        "NoProfiles",
        "NoSriov",
        "ToolMissing",
        "VfDriverMissing",
    }
)
"""Reasons of a GPU that name something that its node lacks."""


class Row(msgspec.Struct, frozen=True):
    """A GPU."""

    device: SRIOVGPUDevice
    node: str
    board: str
    state: str
    """One of `STATES`."""
    place: tuple[Any, ...]
    """Sorts by node and address."""
    vgpus: int
    lacks: tuple[tuple[str, str], ...]
    """What its node lacks: reason and message."""

    @property
    def mode(self) -> str:
        return self.device.status.mode

    @property
    def text(self) -> str:
        """What the search looks at."""
        device = self.device
        return f"{device.metadata.name} {self.node} {device.spec.address} {self.board} {self.mode}"


def row_of(caches: Caches, device: SRIOVGPUDevice) -> Row:
    """A GPU as one of its objects shows it."""
    node = node_of(device)
    return Row(
        device,
        node,
        board_of(caches.pci.store.get(device.metadata.name)),
        state_of(caches, device),
        (ordered(node), device.spec.address),
        sum(device.status.configured.values()),
        tuple(
            (one.reason, one.message)
            for one in device.status.conditions
            if one.status == "False" and one.reason in LACKING
        ),
    )


def kept(site: Site, table: Table[Row]) -> Rows[Row]:
    """The rows of all GPUs, kept for all users."""
    caches = site.caches

    def build(name: str) -> Row | None:
        device = caches.gpus.store.get(name)
        return row_of(caches, device) if device is not None else None

    def touched(change: Change) -> list[str]:
        if change.kind in ("gpus", "pci"):
            return [change.key.name]
        # Its kubelet writes all the time.
        if change.kind == "nodes" and staleness(change.before) != staleness(change.after):
            found = caches.gpus.store.by(NODE, change.key.name)
            return [device.metadata.name for device in found]
        return []

    return site.rows(
        "gpus",
        lambda: table.rows(
            keys=[device.metadata.name for device in caches.gpus.store],
            build=build,
            touched=touched,
            indexed=["node", "state", "mode", "board"],
        ),
    )


def board_of(card: PCIDevice | None) -> str:
    """What a card is called."""
    if card is None:
        return ""
    status = card.status
    return _board(status.device_id, status.subsystem_device_id, status.description)


@lru_cache(maxsize=1024)
def _board(device: str, subsystem: str, description: str) -> str:
    status = PCIDeviceStatus(
        device_id=device, subsystem_device_id=subsystem, description=description
    )
    return Gpu(device=SRIOVGPUDevice(), pci=PCIDevice(status=status)).board
