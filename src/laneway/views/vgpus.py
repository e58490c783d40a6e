"""The vGPUs of a GPU: what it carries, what is desired and missing, and their holders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from laneway.api import VGPUDevice, find_condition
from laneway.controllers.devices.holder import holder
from laneway.core.phrases import short_name
from laneway.views.gpus import Gpu


def profiles(gpu: Gpu) -> tuple[dict[str, int], dict[str, int]]:
    """How many vGPUs of each profile the GPU carries, and how many more are desired."""
    carried: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for vgpu in gpu.vgpus:
        found = vgpu.status.configure_vgpu_type_name
        if vgpu.status.vgpu_status:
            carried[found or "unknown profile"] += 1
        if vgpu.spec.enabled and found != vgpu.spec.vgpu_type_name:
            missing[vgpu.spec.vgpu_type_name or "unnamed profile"] += 1
    return dict(carried), dict(missing)


def lines(vgpus: Sequence[VGPUDevice]) -> list[str]:
    """A line for every vGPU that exists or is desired: address, profile, object and holder."""
    return [
        f"{vgpu.spec.address} {profile(vgpu)}: vgpudevice/{vgpu.metadata.name}{_held(vgpu)}"
        for vgpu in vgpus
        if vgpu.status.vgpu_status or vgpu.spec.enabled
    ]


def _held(vgpu: VGPUDevice) -> str:
    held_by = holder(vgpu.status.allocation)
    return f", held by {held_by}" if held_by else ""


def profile(vgpu: VGPUDevice) -> str:
    """The profile that it has, and the desired one where that differs; empty for no vGPU."""
    found, desired = vgpu.status.configure_vgpu_type_name, vgpu.spec.vgpu_type_name
    is_there = short_name(found) or "?" if vgpu.status.vgpu_status else ""
    if not vgpu.spec.enabled or desired == found:
        return is_there
    ready = find_condition(vgpu.status.conditions, "Ready")
    why = f" ({ready.reason})" if ready is not None and ready.reason else ""
    return f"{is_there or 'none'}, desired {short_name(desired) or '?'}{why}"
