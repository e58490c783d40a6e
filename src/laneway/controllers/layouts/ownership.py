"""Which layout a GPU belongs to: of all that select it, the first that claimed it has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from laneway.api import CoreNode, VGPULayout
from laneway.controllers.devices import layout as projection
from laneway.controllers.layouts.status import LayoutStatus
from laneway.core.layout.desired import (
    DesiredLayout,
    owner,
    replaces,
    selects_gpu,
    selects_node,
)
from laneway.core.layout.objects import Found, Objects
from laneway.core.refusals import GpuOwnedByLayout, OwnedByVgpuDevices, Refusal
from laneway.kube.informer import Informer


class Ownership:
    """The layouts of one node's GPUs, and whose each GPU is."""

    def __init__(
        self,
        node: str,
        layouts: Informer[VGPULayout],
        nodes: Informer[CoreNode],
        status: LayoutStatus,
    ) -> None:
        self._node = node
        self._layouts = layouts
        self._nodes = nodes
        self._status = status
        self.found: Mapping[str, Found] = {}
        """The GPUs of the node by the names of their objects."""

    def selects(self, layout: VGPULayout, gpu: str) -> bool:
        found = self.found.get(gpu)
        if found is None:
            return False
        node = self._nodes.store.get(self._node)
        labels = node.metadata.labels if node is not None else {}
        selection = projection.selection(layout)
        device = found.gpu.device
        return selects_node(selection, self._node, labels) and selects_gpu(selection, gpu, device)

    def owner(self, gpu: str) -> str:
        """The layout that has a GPU, or is to get it."""
        return owner(
            projection.claimant(layout, self._status.entries(layout).get(gpu))
            for layout in self._layouts.store
            if projection.claims(layout) and self.selects(layout, gpu)
        )

    def against(
        self, gpu: str, layout: VGPULayout, desired: DesiredLayout, objects: Objects, has: str
    ) -> tuple[Refusal, ...]:
        """Who else owns the GPU. `has`: the layout that has it, or is to get it."""
        if has != layout.metadata.name and not layout.spec.dry_run:
            return (GpuOwnedByLayout(gpu, has),)
        asked = Counter(one.asks for one in objects.vgpus if one.asks is not None)
        # A trial is taken for one of the layout that owns the GPU.
        if self.is_owned(gpu, has) or layout.spec.take_over or not replaces(desired, asked):
            return ()
        single = tuple(one.name for one in objects.vgpus if one.asks is not None)
        return (OwnedByVgpuDevices(gpu, tuple(sorted(asked.items())), single),)

    def is_owned(self, gpu: str, layout: str) -> bool:
        stored = self._layouts.store.get(layout)
        return stored is not None and projection.owns(self._status.entries(stored).get(gpu))
