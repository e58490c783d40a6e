"""VGPULayouts: which vGPUs many GPUs are to carry.

A layout speaks of GPUs that there are and others that may come, so what cannot be satisfied now is
admitted with a warning that says so. Refused is what contradicts itself on any GPU, and what would
take a GPU from its owner. GPUs of one model are alike, so each model is judged once, as if it were
empty: what its GPUs carry now their agents tell in the status.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.rules.owning import Selected, owned_by_others, selected
from laneway.api import PCIDevice, SRIOVGPUDevice, VGPULayout
from laneway.controllers.devices import layout as projection
from laneway.controllers.devices.gpu import profile_names
from laneway.core.decision import refusals_of
from laneway.core.inventory import Inventory
from laneway.core.layout.desired import DesiredLayout, plan_desired
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.phrases import shown
from laneway.core.refusals import (
    InstancesDoNotFit,
    LayoutDoesNotFit,
    MixedSizeUnsupported,
    ProfileNotListed,
    ProfilesConflict,
    Refusal,
    SizesMixed,
    TooFewVfs,
)
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import NVIDIA_DRIVER
from laneway.core.vgpu.profiles import profile
from laneway.core.vgpu.spelling import named

_ABOUT_THE_DESIRED_STATE = (
    InstancesDoNotFit,
    LayoutDoesNotFit,
    MixedSizeUnsupported,
    ProfilesConflict,
    ProfileNotListed,
    SizesMixed,
    TooFewVfs,
)
"""What is so on every GPU of a model, however it is now."""
_ANY = PciAddress(0, 0, 0, 0)


def _create(case: Case[VGPULayout], new: VGPULayout) -> Findings:
    gpus = selected(case.world, new)
    known = _known(gpus)
    desired = projection.desired(new, _ANY, known)
    odd: tuple[Refusal, ...] = (
        tuple(
            ProfileNotListed(shown(name), tuple(sorted(known[0] or known[1])))
            for name in desired.wanted
            if profile(name) is None
        )
        if isinstance(desired, DesiredLayout)
        else desired
    )
    yield from odd
    if odd:
        return
    if not gpus:
        yield "The layout selects no GPU: check spec.nodeSelector and spec.gpuSelector."
    if not new.spec.dry_run:
        # Of a trial the agents tell, and more exactly.
        yield from owned_by_others(case.world, case.name, new, gpus)
        yield from _unfitting(new, gpus)


def _known(gpus: Selected) -> tuple[set[str], set[str]]:
    """The profiles of all these GPUs as their drivers name them, and as the catalogue does."""
    driver: set[str] = set()
    catalogue: set[str] = set()
    # GPUs of one model that carry the same offer the same.
    for gpu, device in {_offer(gpu, device): (gpu, device) for gpu, device in gpus}.values():
        reported, listed = profile_names(gpu, device.status)
        driver |= reported
        catalogue |= listed
    return driver, catalogue


def _offer(gpu: SRIOVGPUDevice, device: PCIDevice) -> tuple[object, ...]:
    status = device.status
    return status.device_id, status.subsystem_device_id, frozenset(gpu.status.fits.items())


def _update(case: Case[VGPULayout], old: VGPULayout, new: VGPULayout) -> Findings:
    return () if old.spec == new.spec or case.trusted else _create(case, new)


# ------------------------------------------------------------------------------ what does not fit


def _unfitting(new: VGPULayout, gpus: Selected) -> Findings:
    """What no card of a model can carry."""
    models: dict[tuple[str, str, int], Selected] = defaultdict(list)
    for gpu, device in gpus:
        status = device.status
        functions = status.sriov.total_vfs if status.sriov is not None else 0
        models[status.device_id, status.subsystem_device_id, functions].append((gpu, device))
    for (model, board, functions), some in sorted(models.items()):
        names = sorted(gpu.metadata.name for gpu, _ in some)
        driver, _ = _known(some)
        for refusal in _of_model(new, _blank(some[0][1], model, board, functions), driver):
            more = f" and {len(names) - 1} more of the same model" if len(names) > 1 else ""
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


def _of_model(layout: VGPULayout, card: PciFunction, driver: set[str]) -> Iterable[Refusal]:
    """`driver`: the profiles that the driver offers on cards of the model, as far as it tells."""
    desired = projection.desired(layout, card.address, (driver, named(card)[1]))
    if not isinstance(desired, DesiredLayout):
        return
    situation = Situation(node="", inventory=Inventory(functions=(card,)), sriov_manage=True)
    for one in refusals_of(plan_desired(desired, situation)):
        if isinstance(one, ProfileNotListed) and driver:
            # The catalogue has profiles that no driver offers.
            yield ProfileNotListed(one.profile, tuple(sorted(driver)))
        elif isinstance(one, _ABOUT_THE_DESIRED_STATE):
            yield one


RULES = rules(Parts(node_of=lambda _layout, _world: "", create=_create, update=_update))
