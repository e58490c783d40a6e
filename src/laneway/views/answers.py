"""How far the agent of a node is with a desired state, by what it wrote into the object.

An answer belongs to a generation of the object, so an older answer never counts.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_PLANNED,
    LAYOUT_REFUSED,
    LayoutGpu,
    SRIOVGPUDevice,
    Status,
    VGPULayout,
    find_condition,
)
from laneway.controllers.devices.gpu import LEFT, MISSING
from laneway.controllers.devices.outcome import IN_PROGRESS
from laneway.views.state import NEXT
from laneway.views.steps import step_count

_WORKING = (IN_PROGRESS, MISSING, LEFT)
"""Reasons of an object whose agent is still at work."""


class Answer(NamedTuple):
    """How far an agent is with a desired state."""

    kind: Literal["none", "working", "done", "refused"]
    """`none`: no agent has seen it yet."""
    reason: str = ""
    message: str = ""

    @property
    def final(self) -> bool:
        return self.kind in ("done", "refused")

    @property
    def words(self) -> str:
        return ": ".join(part for part in (self.reason, self.message) if part)


def answer_of(status: Status, generation: int) -> Answer:
    """What the Ready condition says to a generation of its object."""
    ready = find_condition(status.conditions, "Ready")
    if ready is None or ready.observed_generation < generation:
        return Answer("none")
    if ready.status == "True":
        return Answer("done", ready.reason, ready.message)
    working = ready.reason in _WORKING or ready.status == "Unknown"
    return Answer("working" if working else "refused", ready.reason, ready.message)


def of_gpu(device: SRIOVGPUDevice, generation: int) -> Answer:
    """The same for a GPU; one that offers no vGPU yet may be as desired."""
    found = answer_of(device.status, generation)
    return found._replace(kind="done") if found.reason in NEXT else found


def entry_of(layout: VGPULayout, name: str, generation: int) -> LayoutGpu | None:
    """What is said about a GPU to the present spec."""
    for entry in layout.status.gpus:
        if entry.name == name and entry.observed_generation >= generation:
            return entry
    return None


def of_layout(entry: LayoutGpu | None) -> Answer:
    """How far the agent is with one GPU of a layout."""
    if entry is None:
        return Answer("none")
    if entry.state in (LAYOUT_DONE, LAYOUT_PLANNED):
        return Answer("done", entry.reason, entry.message)
    if entry.state == LAYOUT_REFUSED:
        return Answer("refused", entry.reason, entry.message)
    left = f"{step_count(len(entry.steps))} left: {entry.steps[0]}" if entry.steps else ""
    return Answer("working", entry.reason or entry.state, entry.message or left)
