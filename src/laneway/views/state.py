"""How a GPU is: its mode, its state, and what else to know about it."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.api import LAYOUT_DONE, LAYOUT_PLANNED, LayoutGpu, VGPULayout
from laneway.views import instances
from laneway.views.gpus import Gpu
from laneway.views.profiles import counts, room
from laneway.views.vgpus import profiles

NEXT = {
    "NoGpuInstances": (
        "MIG mode is on; next: laneway vgpu set {title} PROFILE=COUNT, which makes the GPU "
        "instances too."
    ),
    "MigOnly": (
        "The virtual functions are there, and this model offers vGPUs only in MIG mode; next: "
        "laneway gpu enable {title} --mode MIGBacked"
    ),
}
"""Reasons of a GPU that is as desired and offers no vGPU yet, and the next step."""

WITHOUT_DRIVER = frozenset({"DriverMissing", "VfDriverMissing", "ToolMissing"})
"""Reasons of a GPU that only follow from how the driver of its node is."""


def mode(gpu: Gpu) -> str:
    """The mode that it is in, and the desired one where that differs."""
    found, desired = gpu.device.status.mode, gpu.device.spec.mode
    return f"{found or '?'}, desired {desired}" if desired and desired != found else found


def state(gpu: Gpu) -> str:
    """`Enabled` or `Disabled`, or the reason why it is not as desired."""
    answer = gpu.ready
    desired = "enabled" if gpu.device.spec.enabled else "disabled"
    if answer is None:
        return f"to be {desired}: no agent has answered yet"
    if answer.status == "True":
        return answer.reason
    if answer.reason in NEXT:
        return desired.capitalize()
    if gpu.driver and answer.reason in WITHOUT_DRIVER:
        return f"to be {desired}: {gpu.driver.partition(':')[0]}"
    return f"to be {desired}: {answer.reason or answer.status}"


def notes(gpu: Gpu) -> Iterator[str]:
    """What else to know about a GPU, below its row."""
    yield from _wrong(gpu)
    carried, missing = profiles(gpu)
    if carried:
        yield f"has {counts(carried)}"
    if missing:
        yield f"desired and missing: {counts(missing)}"
    if divided := instances.of_gpu(gpu):
        yield f"GPU instances {divided}"
    if fits := room(gpu.device.status.fits):
        yield f"room for {fits}"
    elif carried:
        yield "no room for another vGPU"
    if left := instances.room(gpu):
        yield f"room for GPU instances {left}"
    for layout, entry in gpu.layouts:
        if not layout.spec.dry_run:
            yield f"layout {layout.metadata.name}: {layout_state(layout, entry)}"


def _wrong(gpu: Gpu) -> Iterator[str]:
    """What keeps it from being as desired, its node's driver first: all else follows from it."""
    if gpu.driver:
        yield gpu.driver
    answer = gpu.ready
    if answer is not None and answer.status != "True" and answer.message:
        yield answer.message
    for condition in gpu.device.status.conditions:
        if condition.type != "Ready" and condition.status == "False" and condition.message:
            yield f"{condition.reason or condition.type}: {condition.message}"


def layout_state(layout: VGPULayout, entry: LayoutGpu) -> str:
    """How far a layout is with a GPU, and why no further."""
    if entry.observed_generation < layout.metadata.generation:
        return "not answered yet"
    if entry.state in (LAYOUT_DONE, LAYOUT_PLANNED):
        return entry.state
    return ": ".join(part for part in (entry.state, entry.message or entry.reason) if part)
