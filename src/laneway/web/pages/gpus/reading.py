"""A GPU with all that belongs to it, from the caches and without a search through all objects."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import LayoutGpu, SRIOVGPUDevice, VGPULayout
from laneway.changes import vgpus as changes
from laneway.changes.errors import RefusedError
from laneway.views.gpus import Gpu, assemble, node_of
from laneway.web.caches import NODE, Caches
from laneway.web.page import NotFound
from laneway.web.visit import Visit

BY = "this page"
"""What refuses a change of a layout that is not the GPU's own."""


def named(visit: Visit) -> Gpu:
    """The GPU that the address of a page names. Raises NotFound."""
    name = visit.name("name")
    if (device := visit.caches.gpus.store.get(name)) is None:
        raise NotFound(name)
    [gpu] = gpus_of(visit.caches, [device])
    return gpu


def several(visit: Visit, names: Sequence[str]) -> tuple[Gpu, ...]:
    """The GPUs of these names that exist."""
    store = visit.caches.gpus.store
    found = [store.get(name) for name in dict.fromkeys(names)]
    return gpus_of(visit.caches, [device for device in found if device is not None])


def gpus_of(caches: Caches, devices: Sequence[SRIOVGPUDevice]) -> tuple[Gpu, ...]:
    """The GPUs of these objects, in the order of nodes and addresses."""
    nodes = {node_of(device) for device in devices}
    places = {(node_of(device), device.spec.address) for device in devices}
    names = {device.metadata.name for device in devices}
    known = {node: found for node in nodes if (found := caches.nodes.store.get(node)) is not None}
    vgpus = [vgpu for node, address in places for vgpu in caches.vgpus_of(node, address)]
    cards = [card for name in names if (card := caches.pci.store.get(name)) is not None]
    return assemble(
        devices,
        vgpus,
        cards=cards,
        claims=[claim for node in nodes for claim in caches.claims.store.by(NODE, node)],
        migs=[mig for node in nodes for mig in caches.migs.store.by(NODE, node)],
        layouts=[one for one in caches.layouts.store if _entries(one, names)],
        nodes=known,
        agents=[one for node in nodes if (one := caches.device_nodes.store.get(node)) is not None],
    )


def layouts_for(visit: Visit, gpu: Gpu) -> list[VGPULayout]:
    """The layouts that may mean a GPU: there can be one for each GPU of the cluster."""
    return [
        layout
        for layout in visit.caches.layouts.store
        if not (names := layout.spec.gpu_selector.names)
        or gpu.name in names
        or layout.metadata.name == gpu.name
    ]


def own_layout(visit: Visit, gpu: Gpu) -> VGPULayout | None:
    """The layout of this GPU alone; None where there is none, or another has the GPU."""
    try:
        return changes.own_layout(gpu, layouts_for(visit, gpu), BY)
    except RefusedError:
        return None


def _entries(layout: VGPULayout, names: set[str]) -> list[LayoutGpu]:
    return [entry for entry in layout.status.gpus if entry.name in names]
