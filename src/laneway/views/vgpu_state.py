"""How a virtual function and its vGPU are, in one word and with the reason.

The reasons are the agent's own words. Where a vGPU cannot be made, the reason is that of its own
GPU: another GPU of the same node may have room.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from laneway.api import LayoutGpu, SRIOVGPUDevice, VGPUDevice, VGPULayout, find_condition
from laneway.core.phrases import sentences
from laneway.views.answers import answer_of, of_layout
from laneway.views.profiles import counts

Kind = Literal["failed", "away", "progress", "enabled", "disabled", "exhausted"]
LAYOUT = "VGPULayout "
"""Begins `status.owner` where a layout configures the GPU."""
_ON_THE_WAY = ("Permitted", "Advertised")
"""Conditions without which VMs cannot request a vGPU that is there."""
_NO_ROOM = "None can be configured: "
"""Begins, in the answer to a function without a vGPU, why none is possible."""


class State(NamedTuple):
    """How a function is."""

    kind: Kind
    why: str = ""
    """What it waits for, why it failed, or why no vGPU is possible; whole sentences."""


def owner_layout(owner: str) -> str:
    """The layout that configures a GPU, by `status.owner`; empty where none does."""
    return owner.removeprefix(LAYOUT) if owner.startswith(LAYOUT) else ""


def state_of(
    vgpu: VGPUDevice,
    gpu: SRIOVGPUDevice | None,
    layouts: Iterable[tuple[VGPULayout, LayoutGpu]] = (),
    stale: str = "",
) -> State:
    """The state of a function of a GPU.

    `layouts`: what they say about the GPU. `stale`: why its objects may be out of date.
    """
    if stale:
        return State("away", f"{stale[0].upper()}{stale[1:]}.")
    status = vgpu.status
    answer = answer_of(status, vgpu.metadata.generation)
    is_there = bool(status.vgpu_status)
    if answer.kind == "none" and (vgpu.spec.enabled or is_there):
        waits = f"The agent of {vgpu.spec.node_name} has not answered to this desired state yet."
        return State("progress", waits)
    if answer.kind == "working":
        return State("progress", answer.message or answer.reason)
    if under_way := _under_way(layouts):
        return State("progress", under_way)
    if not (vgpu.spec.enabled or is_there):
        return _without_vgpu(vgpu, gpu)
    if answer.kind == "refused":
        return State("failed", answer.message or answer.reason)
    return State("enabled", sentences(*_not_offered(vgpu)) if is_there else "")


def _under_way(layouts: Iterable[tuple[VGPULayout, LayoutGpu]]) -> str:
    """What an agent does for a layout just now."""
    for layout, entry in layouts:
        found = of_layout(entry)
        if found.kind == "working" and not layout.spec.dry_run:
            return f"VGPULayout {layout.metadata.name}: {found.message or found.reason}"
    return ""


def _without_vgpu(vgpu: VGPUDevice, gpu: SRIOVGPUDevice | None) -> State:
    if vgpu.status.available_types:
        return State("disabled")
    ready = find_condition(vgpu.status.conditions, "Ready")
    if ready is None:
        return State("exhausted", f"The agent of {vgpu.spec.node_name} has not reported on it yet.")
    _, _, said = ready.message.partition(_NO_ROOM)
    if gpu is not None and not gpu.spec.enabled:
        return State("exhausted", f"SRIOVGPUDevice {gpu.metadata.name} is not enabled.")
    if gpu is not None and gpu.status.configured:
        return State("exhausted", f"The GPU has {counts(gpu.status.configured)}: no room for more.")
    return State("exhausted", said or "The driver offers no profile on this function.")


def _not_offered(vgpu: VGPUDevice) -> list[str]:
    """Why VMs cannot request a vGPU that is there."""
    found = (find_condition(vgpu.status.conditions, kind) for kind in _ON_THE_WAY)
    return [one.message for one in found if one is not None and one.status == "False"][:1]
