"""VGPULayout: its spec and the lower objects as values, the patches for these, and its status.

All pure. What is written into the layout is the same from every agent: an entry depends on its
GPU only, and the sum of the entries on the entries and the spec only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_IN_PROGRESS,
    LAYOUT_PLANNED,
    LAYOUT_REFUSED,
    Condition,
    LayoutGpu,
    MigConfiguration,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.controllers.devices import vgpu as vgpu_device
from laneway.controllers.devices.family import DeviceObject, ready
from laneway.controllers.devices.gpu import LEFT, MISSING
from laneway.controllers.devices.outcome import IN_PROGRESS, in_words
from laneway.core import names
from laneway.core.decision import Decision, refusals_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory
from laneway.core.layout.desired import OWNED, USED, Claimant, DesiredLayout, Selection, desired_of
from laneway.core.layout.objects import Answer, Found, GpuObject, MigObject, Objects, VgpuObject
from laneway.core.layout.stages import Waiting
from laneway.core.mig.profiles import bare_name, display_name
from laneway.core.pci import Link, PciAddress
from laneway.core.phrases import counted, sentences, several, shown
from laneway.core.plan import Plan
from laneway.core.raw import JsonObject
from laneway.core.reasons.former import renamed
from laneway.core.refusals import (
    ApprovalRequired,
    GpuNotReady,
    NoGpuInstances,
    Refusal,
    VfNotFound,
    reason_of,
)
from laneway.core.sriov.vfs import vf_count
from laneway.core.vgpu.spelling import in_full
from laneway.core.words import describe

_NAMED = 3
"""How many GPUs a summing message speaks of one by one."""

_LATER = "The layout is applied when that ends."
NOT_LATER = (
    "The layout stays refused when that ends. To apply it then, set its spec.whenPossible to true."
)

_FOLLOWING = (
    IN_PROGRESS,
    reason_of(VfNotFound),
    reason_of(GpuNotReady),
    reason_of(NoGpuInstances),
    MISSING,
    LEFT,
)
"""Answers of an object that only waits for another one, whose own answer says more."""

_WAITING: Mapping[Waiting, str] = {
    "vgpus to go": "the old vGPUs are removed",
    "the GPU": "the GPU has the requested functions and mode",
    "GPU instances": "the GPU instances are created",
    "vGPUs": "the vGPUs are configured",
    "nothing": "the node reports it",
}


# ------------------------------------------------------------------------------- what it requests


def selection(layout: VGPULayout) -> Selection:
    nodes, gpus = layout.spec.node_selector, layout.spec.gpu_selector
    return Selection(
        labels=nodes.match_labels,
        nodes=frozenset(nodes.names),
        names=frozenset(gpus.names),
        device_ids=frozenset(gpus.device_ids),
    )


def claimant(layout: VGPULayout, entry: LayoutGpu | None = None) -> Claimant:
    """`entry`: what the layout's status says of the GPU."""
    metadata = layout.metadata
    return Claimant(metadata.creation_timestamp, metadata.name, owns(entry))


def owns(entry: LayoutGpu | None) -> bool:
    """Whether a layout has been applied to a GPU, as its status says of the GPU."""
    if entry is None:
        return False
    # Entries that an agent wrote before there was a generation to accept.
    return entry.accepted_generation > 0 or entry.state in (LAYOUT_DONE, LAYOUT_IN_PROGRESS)


def entry_of(layout: VGPULayout, gpu: str) -> LayoutGpu | None:
    """What a layout's status says of a GPU, by the name of its SRIOVGPUDevice."""
    return next((one for one in layout.status.gpus if one.name == gpu), None)


def is_accepted(layout: VGPULayout, entry: LayoutGpu | None) -> bool:
    """Whether the present desired state of a layout has been applied to a GPU, or begun to be."""
    generation = layout.metadata.generation
    if entry is None:
        return False
    if entry.accepted_generation == 0:
        return owns(entry) and entry.observed_generation == generation
    return entry.accepted_generation == generation


def claims(layout: VGPULayout) -> bool:
    """Whether a layout has GPUs at all: one that only asks what would be done has none."""
    return not layout.spec.dry_run and not layout.metadata.deletion_timestamp


def desired(
    layout: VGPULayout, address: PciAddress, known: Sequence[Collection[str]] = ()
) -> DesiredLayout | tuple[Refusal, ...]:
    """What a layout asks of a GPU. `known`: the profiles that short names may stand for."""
    vgpus = ((in_full(one.profile, *known), one.count) for one in layout.spec.vgpus)
    return desired_of(address, layout.spec.mode, vgpus)


# ------------------------------------------------------------------------------------- hardware


def gpus(inventory: Inventory, node: str) -> dict[str, Found]:
    """The GPUs that can be shared, by the names of their objects."""
    return {
        names.pci_object_name(node, one.address): found(
            inventory, one.address, inventory.modes.get(one.address)
        )
        for one in inventory.functions
        if one.sriov_gpu
    }


def found(inventory: Inventory, address: PciAddress, modes: GpuModes | None) -> Found:
    """A GPU that is in the inventory. Without its link, whose speed changes with the load."""
    gpu = inventory.function(address)
    if gpu is None:
        raise LookupError(f"{address} is not in the inventory")
    bare = msgspec.structs.replace(gpu, link=Link())
    return Found(bare, inventory.vgpus_of(address), modes)


# ------------------------------------------------------------------------------- the lower objects


def objects(
    node: str,
    gpu: SRIOVGPUDevice | None,
    mig: MigConfiguration | None,
    vgpus: Iterable[VGPUDevice],
) -> Objects:
    """The objects of one GPU. Those that speak of another device than their name are none."""
    found = (
        VgpuObject(
            one.metadata.name,
            PciAddress.parse(one.spec.address),
            one.spec.vgpu_type_name if one.spec.enabled else None,
            _refused(one),
        )
        for one in vgpus
        if not one.metadata.deletion_timestamp and vgpu_device.wrong_device(one, node) is None
    )
    return Objects(
        GpuObject(gpu.spec.enabled, gpu.spec.mode, _refused(gpu)) if gpu else None,
        MigObject(mig.spec.enabled, requested(mig), _refused(mig)) if mig else None,
        tuple(sorted(found, key=lambda one: one.address)),
    )


def requested(mig: MigConfiguration) -> dict[str, int]:
    """GPU instances by profile, as the driver names it."""
    return {bare_name(one.name): one.requested for one in mig.spec.profile_spec if one.requested}


def _refused(stored: DeviceObject) -> Answer | None:
    """What the present desired state of an object has been refused with."""
    answer = find_condition(stored.status.conditions, "Ready")
    if answer is None or answer.status != "False" or renamed(answer.reason) in _FOLLOWING:
        return None
    if answer.observed_generation != stored.metadata.generation:
        return None
    return Answer(answer.reason, answer.message, f"{type(stored).__name__} {stored.metadata.name}")


def vgpu_patch(profile: str | None) -> JsonObject:
    """The desired state for a vGPU, or for none."""
    return {"enabled": False} if profile is None else {"enabled": True, "vGPUTypeName": profile}


def gpu_patch(desired: tuple[bool, str]) -> JsonObject:
    enabled, mode = desired
    return {"enabled": enabled, "mode": mode}


def mig_patch(
    stored: MigConfiguration, desired: tuple[bool, dict[str, int]], ids: Mapping[str, int]
) -> JsonObject:
    """The spec for exactly these GPU instances, or for none. `ids`: the driver's, by profile."""
    enabled, counts = desired
    if not enabled:
        return {"enabled": False}
    known = {bare_name(one.name): one for one in stored.spec.profile_spec}
    listed: list[JsonObject] = [
        {"name": one.name, "id": one.id, "requested": counts.get(name, 0)}
        for name, one in known.items()
    ]
    listed += [
        {"name": display_name(name), "id": ids.get(name, 0), "requested": count}
        for name, count in counts.items()
        if name not in known
    ]
    return {"enabled": True, "profileSpec": listed}


# ------------------------------------------------------------------------------ one GPU's entry


def done(entry: LayoutGpu, desired: DesiredLayout) -> LayoutGpu:
    return _said(entry, LAYOUT_DONE, "Done", f"As requested: {_asked(desired)}.")


def refused(entry: LayoutGpu, refusals: tuple[Refusal, ...], layout: VGPULayout) -> LayoutGpu:
    """What speaks against a desired state, and whether it is applied once that has ended.

    One that a use of the GPU forbids is not, unless the layout says so or had been
    applied before: who stops a VM does not expect its GPU to be divided again.
    """
    words, final = in_words(refusals), entry.final
    owned = any(isinstance(one, OWNED) for one in refusals)
    if not layout.spec.dry_run and (owned or any(isinstance(one, USED) for one in refusals)):
        applied = entry.accepted_generation == layout.metadata.generation
        final = not (layout.spec.when_possible or applied)
        if not owned:
            words = sentences(words, NOT_LATER if final else _LATER)
    said = _said(entry, LAYOUT_REFUSED, refusals[0].reason, words)
    return msgspec.structs.replace(said, final=final)


def possible_now(entry: LayoutGpu, layout: VGPULayout) -> LayoutGpu:
    """A desired state stays refused although nothing speaks against it any more."""
    refusal = ApprovalRequired(layout.metadata.name)
    said = _said(entry, LAYOUT_REFUSED, refusal.reason, refusal.words)
    return msgspec.structs.replace(said, final=True)


def planned(entry: LayoutGpu, decision: Decision, layout: VGPULayout, owner: str) -> LayoutGpu:
    """What would be done. `owner`: the layout that owns the GPU."""
    if refusals := refusals_of(decision):
        return refused(entry, refusals, layout)
    steps = plan_steps(decision)
    words = (
        "spec.dryRun is true, so nothing is changed. These steps would be done in this order."
        if steps
        else "Nothing needs to be done."
    )
    if owner:
        words += f" VGPULayout {owner} owns the GPU."
    return _said(entry, LAYOUT_PLANNED, "DryRun", words, steps)


def in_progress(
    entry: LayoutGpu, waiting: Waiting, steps: Sequence[str], objects: Objects
) -> LayoutGpu:
    """What is waited for, and what stands in its way by the answer of a lower object."""
    words = f"Waiting until {_WAITING[waiting]}."
    if not objects.refused:
        return _said(entry, LAYOUT_IN_PROGRESS, IN_PROGRESS, words, steps)
    first = objects.refused[0]
    return _said(
        entry, LAYOUT_IN_PROGRESS, first.reason, f"{words} {first.of}: {first.message}", steps
    )


def _said(
    entry: LayoutGpu, state: str, reason: str, message: str, steps: Sequence[str] = ()
) -> LayoutGpu:
    return msgspec.structs.replace(
        entry, state=state, reason=reason, message=message, steps=list(steps)
    )


def plan_steps(decision: Decision) -> list[str]:
    """A plan in words, with what must wait for a further plan."""
    if not isinstance(decision, Plan):
        return []
    return [*map(describe, decision.steps), *decision.then]


def handed_over(entry: LayoutGpu, desired: DesiredLayout, found: Found) -> LayoutGpu:
    """All is desired, and the lower controllers are at it, as far as an inventory shows it."""
    waiting: Waiting = "vGPUs" if found.functions and desired.shared else "the GPU"
    steps = []
    if bool(vf_count(found.gpu)) != desired.shared:
        steps.append(f"{'enable' if desired.shared else 'disable'} the virtual functions")
    missing = desired.wanted
    missing.subtract(found.carried.values())
    steps += [
        f"configure {several(name, count)}" for name, count in sorted(missing.items()) if count > 0
    ]
    return in_progress(entry, waiting, steps, Objects())


def _asked(desired: DesiredLayout) -> str:
    if not desired.shared:
        return f"mode {desired.mode}, no virtual functions"
    return counted(sorted(desired.wanted.items())) if desired.wanted else "no vGPUs"


# ------------------------------------------------------------------------------------- the sum


def summed(layout: VGPULayout) -> tuple[Condition, str]:
    """`Ready` and the summary, from the entries that the layout has."""
    entries = sorted(layout.status.gpus, key=lambda one: one.name)
    generation = layout.metadata.generation
    answered = [one for one in entries if one.observed_generation == generation]
    by_state = {
        state: [one for one in answered if one.state == state]
        for state in (LAYOUT_DONE, LAYOUT_REFUSED, LAYOUT_IN_PROGRESS, LAYOUT_PLANNED)
    }
    known = {one.name for one in answered}
    silent = sorted(({one.name for one in entries} | set(layout.spec.gpu_selector.names)) - known)
    total = len(known) + len(silent)
    ready_count = len(by_state[LAYOUT_DONE])
    summary = f"{ready_count} of {total}"
    if by_state[LAYOUT_REFUSED]:
        one = by_state[LAYOUT_REFUSED]
        words = "; ".join(f"{gpu.name}: {gpu.message}" for gpu in one[:_NAMED])
        return _not_ready("Refused", f"Refused for {_names(one)}. {words}"), summary
    if silent:
        words = (
            f"No agent has reported on {_first(silent)}. Check that the agent of its node runs, "
            "and that an SRIOVGPUDevice has this name."
        )
        return _not_ready("AgentNotReporting", words), summary
    if not total:
        words = (
            "The layout selects no GPU. Check the labels of the nodes, spec.nodeSelector and "
            "spec.gpuSelector."
        )
        return _not_ready("NoGpuSelected", words), summary
    if one := by_state[LAYOUT_IN_PROGRESS]:
        words = "; ".join(f"{gpu.name}: {gpu.message}" for gpu in one[:_NAMED])
        return _not_ready(IN_PROGRESS, f"In progress on {_names(one)}. {words}"), summary
    if by_state[LAYOUT_PLANNED]:
        words = "spec.dryRun is true, so nothing is changed. The plans are in status.gpus."
        return _not_ready("DryRun", words), summary
    return ready("Done", "Every selected GPU is as requested."), summary


def _not_ready(reason: str, message: str) -> Condition:
    return ready(reason, message, status=False)


def _names(entries: Sequence[LayoutGpu]) -> str:
    return _first([one.name for one in entries])


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(shown, names[:_NAMED])) + more
