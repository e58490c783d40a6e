"""How a GPU is, in one word that tables filter by, and the reasons against what it is to be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from laneway.api import LAYOUT_IN_PROGRESS, LAYOUT_REFUSED, LayoutGpu, SRIOVGPUDevice, VGPULayout
from laneway.core.gpu.modes import Mode
from laneway.views.answers import of_gpu, of_layout
from laneway.views.gpus import Gpu, node_of, staleness
from laneway.views.order import natural
from laneway.web.caches import Caches

STATES = ("failed", "away", "progress", "enabled", "disabled")
"""The worst first."""
KINDS = {
    "failed": "danger",
    "away": "warning",
    "progress": "working",
    "enabled": "success",
    "disabled": "off",
}
"""How each is drawn."""
MODES = tuple(mode.value for mode in Mode)


def state_of(caches: Caches, device: SRIOVGPUDevice) -> str:
    """One of `STATES`."""
    node = caches.nodes.store.get(node_of(device))
    if node is None or staleness(node):
        return "away"
    kind = of_gpu(device, device.metadata.generation).kind
    if kind == "refused":
        return "failed"
    if kind != "done":
        return "progress"
    return "enabled" if device.spec.enabled else "disabled"


def entries(gpu: Gpu) -> Iterator[tuple[VGPULayout, LayoutGpu]]:
    """What layouts that change something say about it."""
    return ((layout, entry) for layout, entry in gpu.layouts if not layout.spec.dry_run)


def is_settled(layout: VGPULayout, entry: LayoutGpu) -> bool:
    """Whether nothing is to be said about a layout but that it is applied."""
    is_answered = entry.observed_generation >= layout.metadata.generation
    return is_answered and entry.state not in (LAYOUT_IN_PROGRESS, LAYOUT_REFUSED)


def is_refused(layout: VGPULayout, entry: LayoutGpu) -> bool:
    """Whether the agent refuses the present spec of a layout."""
    is_answered = entry.observed_generation >= layout.metadata.generation
    return is_answered and of_layout(entry).kind == "refused"


@lru_cache(maxsize=16_384)
def ordered(name: str) -> tuple[tuple[int, str], ...]:
    """`natural`, kept: a page of a large cluster sorts by the names of all nodes."""
    return tuple(natural(name))
