"""GPUs as far as lists filter and sort by them, kept up to date by changes.

A page of a large cluster looks at all GPUs for each drawing. What it needs of each is worked out
when the GPU, its card or its node changes, and not when a page is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from laneway.api import PCIDevice, PCIDeviceStatus, SRIOVGPUDevice
from laneway.views.gpus import Gpu, node_of, staleness
from laneway.web.caches import NODE, Caches, Node
from laneway.web.pages.gpus.states import ordered, state_of

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


class Rows:
    """The rows of all GPUs."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._rows: dict[str, Row] = {}
        caches.gpus.subscribe(self._gpu_changed)
        caches.pci.subscribe(self._card_changed)
        caches.nodes.subscribe(self._node_changed)

    def __iter__(self) -> Iterator[Row]:
        return iter(list(self._rows.values()))

    def row(self, device: SRIOVGPUDevice) -> Row:
        """A GPU as one of its objects shows it."""
        node = node_of(device)
        return Row(
            device,
            node,
            board_of(self._caches.pci.store.get(device.metadata.name)),
            state_of(self._caches, device),
            (ordered(node), device.spec.address),
            sum(device.status.configured.values()),
            tuple(
                (one.reason, one.message)
                for one in device.status.conditions
                if one.status == "False" and one.reason in LACKING
            ),
        )

    def _gpu_changed(self, before: SRIOVGPUDevice | None, after: SRIOVGPUDevice | None) -> None:
        if after is not None:
            self._rows[after.metadata.name] = self.row(after)
        elif before is not None:
            self._rows.pop(before.metadata.name, None)

    def _card_changed(self, before: PCIDevice | None, after: PCIDevice | None) -> None:
        name = (after or before or PCIDevice()).metadata.name
        device = self._caches.gpus.store.get(name)
        if device is not None:
            self._rows[name] = self.row(device)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if staleness(before) == staleness(after):
            return
        name = (after or before or Node()).metadata.name
        for device in self._caches.gpus.store.by(NODE, name):
            self._rows[device.metadata.name] = self.row(device)


@lru_cache(maxsize=2)
def rows_of(caches: Caches) -> Rows:
    """The rows of a process, made when a page first needs them."""
    return Rows(caches)


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
