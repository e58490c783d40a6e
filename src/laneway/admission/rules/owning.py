"""Who owns a GPU: one VGPULayout, or its single VGPUDevices.

Agents decide it and tell it in the layouts' status. Of a layout that its agent has not answered yet
it is taken that the agent will apply it: admission let it pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from laneway.admission.rules.common import Findings
from laneway.admission.world import PARENT, World
from laneway.api import PCIDevice, SRIOVGPUDevice, VGPULayout
from laneway.controllers.devices import layout as projection
from laneway.controllers.devices.gpu import profile_names
from laneway.core.layout.desired import DesiredLayout, owner, replaces, selects_gpu, selects_node
from laneway.core.pci import PciAddress
from laneway.core.refusals import GpuOwnedByLayout, OwnedByLayout, OwnedByVgpuDevices

_ANY = PciAddress(0, 0, 0, 0)
Selected = list[tuple[SRIOVGPUDevice, PCIDevice]]


def selected(world: World, layout: VGPULayout) -> Selected:
    """The GPUs that a layout selects, as far as is known what they are."""
    chosen = projection.selection(layout)
    labels = {node.metadata.name: node.metadata.labels for node in world.nodes}
    nodes = {node for node in labels if selects_node(chosen, node, labels[node])}
    found = []
    for gpu in world.gpus:
        name, device = gpu.metadata.name, world.pci_devices.get(gpu.metadata.name)
        if device is None or gpu.spec.node_name not in nodes:
            continue
        if selects_gpu(chosen, name, device.status.device_id):
            found.append((gpu, device))
    return found


def owned_by_layout(world: World, gpu: str) -> Findings:
    """That a layout configures the GPU of an object, which is not for anybody else to change."""
    rivals = []
    for layout in _claiming(world):
        entry = projection.entry_of(layout, gpu)
        answered = entry and entry.observed_generation == layout.metadata.generation
        if (projection.owns(entry) or not answered) and _selects(world, layout, gpu):
            rivals.append(projection.claimant(layout, entry))
    if first := owner(rivals):
        yield OwnedByLayout(gpu, first)


def owned_by_others(world: World, name: str, new: VGPULayout, gpus: Selected) -> Findings:
    """The GPUs that a layout would have to take from another owner.

    `name`: of the layout. `gpus`: those that it selects.
    """
    known = world.layouts.get(name)
    mine = {one.name: one for one in (known or new).status.gpus}
    others = [
        (layout, {one.name: one for one in layout.status.gpus}, _names(selected(world, layout)))
        for layout in _claiming(world)
        if layout.metadata.name != name
    ]
    for gpu, device in gpus:
        one = gpu.metadata.name
        me = projection.claimant(new, mine.get(one))
        rivals = [
            projection.claimant(layout, entries.get(one))
            for layout, entries, meant in others
            if one in meant
        ]
        first = owner([me, *rivals])
        if rivals and first != me.name:
            yield GpuOwnedByLayout(one, first)
        elif not (me.owns or new.spec.take_over):
            vgpus = [vgpu for vgpu in world.vgpus.by(PARENT, one) if vgpu.spec.enabled]
            asked = Counter(vgpu.spec.vgpu_type_name for vgpu in vgpus)
            desired = projection.desired(new, _ANY, profile_names(gpu, device.status))
            if isinstance(desired, DesiredLayout) and replaces(desired, asked):
                names = tuple(sorted(vgpu.metadata.name for vgpu in vgpus))
                yield OwnedByVgpuDevices(one, tuple(sorted(asked.items())), names)


def _claiming(world: World) -> Iterator[VGPULayout]:
    return (layout for layout in world.layouts if projection.claims(layout))


def _selects(world: World, layout: VGPULayout, gpu: str) -> bool:
    stored, device = world.gpus.get(gpu), world.pci_devices.get(gpu)
    node = world.nodes.get(stored.spec.node_name) if stored is not None else None
    if node is None or device is None:
        return False
    chosen = projection.selection(layout)
    on_node = selects_node(chosen, node.metadata.name, node.metadata.labels)
    return on_node and selects_gpu(chosen, gpu, device.status.device_id)


def _names(gpus: Selected) -> frozenset[str]:
    return frozenset(gpu.metadata.name for gpu, _ in gpus)
