"""VGPULayouts: which vGPUs many GPUs are to carry.

A layout is a wish for GPUs that there are and others that may come, so what cannot be satisfied now
is admitted, and whoever makes it is told what will not come true. Only what contradicts itself on
any GPU is refused. GPUs of one model are alike, so each model is judged once, as if it were empty:
what its GPUs carry now their agents tell in the status.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import World
from laneway.api import PCIDevice, SRIOVGPUDevice, VGPULayout
from laneway.controllers.devices import layout as projection
from laneway.core.decision import refusals_of
from laneway.core.inventory import Inventory
from laneway.core.layout.wish import (
    LayoutWish,
    Selection,
    plan_wish,
    selects_gpu,
    selects_node,
)
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.phrases import few, shown
from laneway.core.refusals import (
    InstancesDoNotFit,
    LayoutDoesNotFit,
    MixedSizeUnsupported,
    ModesExclusive,
    ProfileUnknown,
    Refusal,
    SizesMixed,
    TooFewFunctions,
)
from laneway.core.situation import Situation
from laneway.core.sriov import NVIDIA_DRIVER
from laneway.core.vgpu.profiles import profile
from laneway.core.vgpu.spelling import named

_ABOUT_THE_WISH = (
    InstancesDoNotFit,
    LayoutDoesNotFit,
    MixedSizeUnsupported,
    ModesExclusive,
    ProfileUnknown,
    SizesMixed,
    TooFewFunctions,
)
"""What is so on every GPU of a model, however it is now."""
_ANY = PciAddress(0, 0, 0, 0)
_Selected = list[tuple[SRIOVGPUDevice, PCIDevice]]


def _create(case: Case[VGPULayout], new: VGPULayout) -> Findings:
    wish = projection.wish(new, _ANY)
    odd: tuple[Refusal, ...] = (
        tuple(ProfileUnknown(shown(name), ()) for name in wish.wanted if profile(name) is None)
        if isinstance(wish, LayoutWish)
        else wish
    )
    yield from odd
    if odd:
        return
    selected = list(_meant(case.world, projection.selection(new), _known(case.world)))
    if not selected:
        yield "No GPU of any node is selected: look at spec.nodeSelector and spec.gpuSelector."
    if not new.spec.dry_run:  # Of a trial the agents tell, and more exactly.
        yield from _elsewhere(case, new, selected)
        yield from _unfitting(new, selected)


def _update(case: Case[VGPULayout], old: VGPULayout, new: VGPULayout) -> Findings:
    return () if old.spec == new.spec or case.trusted else _create(case, new)


def _known(world: World) -> Iterator[tuple[SRIOVGPUDevice, PCIDevice]]:
    """The GPUs that can be shared, as far as is known what they are."""
    for gpu in world.gpus:
        device = world.pci_devices.get(gpu.metadata.name)
        if device is not None:
            yield gpu, device


def _meant(
    world: World, selection: Selection, among: Iterable[tuple[SRIOVGPUDevice, PCIDevice]]
) -> Iterator[tuple[SRIOVGPUDevice, PCIDevice]]:
    """Those of them that a layout means."""
    labels = {node.metadata.name: node.metadata.labels for node in world.nodes}
    nodes = {node for node in labels if selects_node(selection, node, labels[node])}
    for gpu, device in among:
        model = device.status.device_id
        if gpu.spec.node_name in nodes and selects_gpu(selection, gpu.metadata.name, model):
            yield gpu, device


def _elsewhere(case: Case[VGPULayout], new: VGPULayout, selected: _Selected) -> Findings:
    """The GPUs that an older layout has."""
    mine = projection.claimant(new)
    others = sorted(
        (projection.claimant(one), one.metadata.name)
        for one in case.world.layouts
        if projection.claims(one) and one.metadata.name != case.name
    )
    left = selected
    for other, name in others:
        # One that is only to be made may have no age yet, and is the youngest.
        layout = case.world.layouts.get(name)
        if layout is None or (mine.created and mine < other):
            continue
        taken = list(_meant(case.world, projection.selection(layout), left))
        gpus = {gpu.metadata.name for gpu, _ in taken}
        left = [one for one in left if one[0].metadata.name not in gpus]
        if gpus:
            yield f"VGPULayout {name} is older and has {few(sorted(gpus))}."


# ------------------------------------------------------------------------------ what does not fit


def _unfitting(new: VGPULayout, selected: _Selected) -> Findings:
    """What no card of a model can carry."""
    models: dict[tuple[str, str, int], list[tuple[SRIOVGPUDevice, PCIDevice]]] = defaultdict(list)
    for gpu, device in selected:
        status = device.status
        functions = status.sriov.total_vfs if status.sriov is not None else 0
        models[status.device_id, status.subsystem_device_id, functions].append((gpu, device))
    for (model, board, functions), some in sorted(models.items()):
        names = sorted(gpu.metadata.name for gpu, _ in some)
        for refusal in _of_model(new, _blank(some[0][1], model, board, functions)):
            more = f" and {len(names) - 1} more like it" if len(names) > 1 else ""
            yield f"{names[0]}{more}: {refusal.words}"


def _blank(device: PCIDevice, model: str, board: str, functions: int) -> PciFunction:
    """A card of a model that carries nothing."""
    try:
        address = PciAddress.parse(device.status.address)
    except ValueError:
        address = _ANY
    return PciFunction(
        address=address,
        vendor=NVIDIA,
        device=model,
        subsystem_device=board,
        class_code="030200",
        driver=NVIDIA_DRIVER,
        iommu_group=0,
        total_vfs=functions,
        sriov_gpu=True,
    )


def _of_model(layout: VGPULayout, card: PciFunction) -> Iterable[Refusal]:
    wish = projection.wish(layout, card.address, named(card))
    if not isinstance(wish, LayoutWish):
        return
    situation = Situation(node="", inventory=Inventory(functions=(card,)), sriov_manage=True)
    for one in refusals_of(plan_wish(wish, situation)):
        if isinstance(one, _ABOUT_THE_WISH):
            yield one


RULES = rules(Parts(node_of=lambda _layout, _world: "", create=_create, update=_update))
