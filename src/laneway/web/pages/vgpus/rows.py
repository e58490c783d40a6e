"""The rows of the table of vGPU devices: each function with its GPU and what layouts say about it.

A cluster can have a hundred thousand, so they are kept, and made again when something changes that
they show. Nothing in them depends on a user.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from laneway.api import LayoutGpu, SRIOVGPUDevice, VGPUDevice, VGPULayout
from laneway.core.phrases import short_name
from laneway.kube.sharing import one
from laneway.views.gpus import gpu_name, node_of, staleness
from laneway.views.vgpu_state import State, owner_layout, state_of
from laneway.web.caches import NODE, Caches, Change, parent_of
from laneway.web.pages.gpus.rows import board_of

STATES = ("failed", "away", "progress", "enabled", "disabled", "exhausted")
"""The worst first."""
KINDS = {
    "failed": "danger",
    "away": "warning",
    "progress": "working",
    "enabled": "success",
    "disabled": "off",
    "exhausted": "off",
}
"""How each is drawn."""

Entry = tuple[VGPULayout, LayoutGpu]


class Row(NamedTuple):
    """A virtual function."""

    vgpu: VGPUDevice
    gpu: str
    """Name of the SRIOVGPUDevice that it belongs to."""
    board: str
    state: State
    layout: str
    """The layout that configures the GPU; empty where none does."""

    @property
    def name(self) -> str:
        return self.vgpu.metadata.name

    @property
    def node(self) -> str:
        return node_of(self.vgpu)

    @property
    def place(self) -> str:
        """`NODE/ADDRESS` of its GPU."""
        return parent_of(self.vgpu)

    @property
    def profile(self) -> str:
        """That of its vGPU; of one that is not there yet, the desired one."""
        status, spec = self.vgpu.status, self.vgpu.spec
        there = status.configure_vgpu_type_name if status.vgpu_status else ""
        return short_name(there or (spec.vgpu_type_name if spec.enabled else ""))


class Entries:
    """What layouts say about each GPU, by its name; kept, because each GPU can have its own."""

    def __init__(self, layouts: Iterable[VGPULayout]) -> None:
        self._of: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
        for layout in layouts:
            self._put(layout)

    def of(self, gpu: str) -> Iterable[Entry]:
        return self._of[gpu].values() if gpu in self._of else ()

    def changed(self, before: VGPULayout | None, after: VGPULayout | None) -> set[str]:
        """Take a change in; gives the GPUs about which another thing is said."""
        old = {} if before is None else {one.name: one for one in before.status.gpus}
        new = {} if after is None else {one.name: one for one in after.status.gpus}
        for gpu in old:
            self._of[gpu].pop((before or VGPULayout()).metadata.name, None)
        if after is not None:
            self._put(after)
        same = before is not None and after is not None and before.spec == after.spec
        return {gpu for gpu in old.keys() | new if not (same and old.get(gpu) == new.get(gpu))}

    def _put(self, layout: VGPULayout) -> None:
        for entry in layout.status.gpus:
            self._of[entry.name][layout.metadata.name] = (layout, entry)


class Source:
    """Makes rows, and says which ones a change is shown in."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._entries = Entries(caches.layouts.store)

    def build(self, name: str) -> Row | None:
        """The row of a VGPUDevice; None for one that does not exist."""
        caches = self._caches
        vgpu = caches.vgpus.store.get(name)
        if vgpu is None:
            return None
        parent = sys.intern(gpu_name(vgpu.spec.node_name, vgpu.spec.parent_gpu_device_address))
        gpu, node = caches.gpus.store.get(parent), caches.nodes.store.get(node_of(vgpu))
        entries = self._entries.of(parent)
        return Row(
            vgpu,
            parent,
            board_of(caches.pci.store.get(parent)),
            one(state_of(vgpu, gpu, entries, staleness(node))),
            owner_layout(vgpu.status.owner),
        )

    def touched(self, change: Change) -> Iterator[str]:
        """The rows that show a change."""
        before, after, store = change.before, change.after, self._caches.vgpus.store
        if change.kind == "vgpus":
            yield change.key.name
        elif change.kind == "gpus":
            yield from self._of_gpu(after or before)
        elif change.kind == "pci":
            gpu = self._caches.gpus.store.get(change.key.name)
            if gpu is not None and board_of(before) != board_of(after):
                yield from self._of_gpu(gpu)
        elif change.kind == "nodes":
            if staleness(before) != staleness(after):
                yield from (one.metadata.name for one in store.by(NODE, change.key.name))
        elif change.kind == "layouts":
            for name in self._entries.changed(before, after):
                if (gpu := self._caches.gpus.store.get(name)) is not None:
                    yield from self._of_gpu(gpu)

    def _of_gpu(self, gpu: SRIOVGPUDevice) -> Iterator[str]:
        vgpus = self._caches.vgpus_of(node_of(gpu), gpu.spec.address)
        return (one.metadata.name for one in vgpus)
