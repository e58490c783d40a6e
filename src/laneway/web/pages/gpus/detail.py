"""One GPU: its picture, what is known about it, what it carries, and what keeps it as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from laneway.api import LayoutGpu, SRIOVGPUDevice, VGPUDevice, VGPULayout
from laneway.changes import gpus as changes
from laneway.changes.gpus import Desired
from laneway.kube.resource import served
from laneway.views import memory
from laneway.views.answers import of_layout
from laneway.views.explain.gpu import with_answer
from laneway.views.gpus import Gpu
from laneway.views.page import Page as Explained
from laneway.views.state import NEXT, layout_state, state
from laneway.views.vgpus import profile
from laneway.web import holders
from laneway.web.access import question
from laneway.web.caches import LEDGER, Change
from laneway.web.page import Action, Context, Page
from laneway.web.pages.gpus import drawing, reading
from laneway.web.pages.gpus.listing import LIST
from laneway.web.pages.gpus.states import KINDS, entries, is_refused, is_settled, state_of
from laneway.web.pictures.drawing import State
from laneway.web.pictures.gpu import gpu_picture
from laneway.web.pictures.of_gpu import vgpu_of
from laneway.web.place import link
from laneway.web.visit import Visit

PATCH_GPU = question("patch", served(SRIOVGPUDevice))
KINDS_READ = frozenset(
    {"gpus", "vgpus", "pci", "migs", "claims", "layouts", "nodes", "device_nodes", LEDGER.kind}
)


class Vgpu(NamedTuple):
    """A virtual function as a row."""

    vgpu: VGPUDevice
    url: str
    profile: str
    kind: str
    """How its state is drawn."""
    words: str
    why: str
    holder: holders.Holder | None


class Layout(NamedTuple):
    """A layout that says something about the GPU."""

    name: str
    url: str
    words: str
    steps: Sequence[str]
    """Those that are left, while it is applied."""
    is_refused: bool
    is_own: bool


def _context(visit: Visit) -> Context:
    gpu = reading.named(visit)
    picture = drawing.of_gpu(visit, gpu)
    rows = [_row(visit, vgpu) for vgpu in gpu.vgpus]
    is_shared = gpu.device.spec.enabled or bool(gpu.device.status.vf_addresses)
    sections = with_answer(Explained("", ()), gpu.device, gpu).sections
    return {
        "title": gpu.title,
        "gpu": gpu,
        "is_state": state_of(visit.caches, gpu.device),
        "kinds": KINDS,
        "words": state(gpu),
        "why": _why(gpu),
        "picture": gpu_picture(picture, ids="gpu", say=visit.texts) if picture else "",
        "picture_title": memory.title(memory.picture(gpu)),
        "sections": [one for one in sections if one.shown and not one.picture],
        "vgpus": [row for row in rows if row.vgpu.status.vgpu_status or row.vgpu.spec.enabled],
        "empty_functions": sum(
            not (row.vgpu.status.vgpu_status or row.vgpu.spec.enabled) for row in rows
        ),
        "layouts": list(_layouts(visit, gpu)),
        "blocks": list(changes.against(gpu, Desired(enabled=False))) if is_shared else [],
        "held": [row for row in rows if row.holder is not None],
        "stopped": sum(row.holder is not None and row.holder.is_stopped for row in rows),
        "is_shared": is_shared,
        "mig_url": link("mig", gpu.mig.metadata.name) if gpu.mig is not None else "",
        "may_patch": visit.may(PATCH_GPU),
        "concerns": concerns(visit, gpu),
    }


def _why(gpu: Gpu) -> str:
    """Why it is not as desired, or the next step where it offers nothing yet."""
    answer = gpu.ready
    if answer is None or answer.status == "True":
        return ""
    return NEXT.get(answer.reason, "").format(title=gpu.title) or answer.message


def _row(visit: Visit, vgpu: VGPUDevice) -> Vgpu:
    shown = vgpu_of(vgpu, drawing.links(visit))
    found, why = shown.state, shown.why
    kind = "danger" if found.is_broken else "success" if vgpu.status.vgpu_status else "off"
    if found is State.MISSING and not why:
        kind = "working"
    words = visit.texts(f"pictures.state_{found.value}")
    url, holder = link("vgpus", vgpu.metadata.name), holders.of_vgpu(visit, vgpu)
    return Vgpu(vgpu, url, profile(vgpu), kind, words, why, holder)


def _layouts(visit: Visit, gpu: Gpu) -> Sequence[Layout]:
    own = reading.own_layout(visit, gpu)
    found = [_layout(layout, entry, is_own=layout == own) for layout, entry in entries(gpu)]
    if own is not None and not any(one.is_own for one in found):
        found.append(_layout(own, LayoutGpu(name=gpu.name), is_own=True))
    return found


def _layout(layout: VGPULayout, entry: LayoutGpu, *, is_own: bool) -> Layout:
    name = layout.metadata.name
    is_working = of_layout(entry).kind == "working" and not is_settled(layout, entry)
    return Layout(
        name,
        link("objects", "vgpulayouts", name),
        layout_state(layout, entry),
        entry.steps if is_working else (),
        is_refused(layout, entry),
        is_own,
    )


def concerns(visit: Visit, gpu: Gpu) -> Callable[[Change], bool]:
    """Which changes its pages show."""
    functions = {vgpu.metadata.name for vgpu in gpu.vgpus}
    held = [holders.of_vgpu(visit, vgpu) for vgpu in gpu.vgpus]

    def shows(change: Change) -> bool:
        if change.kind == LEDGER.kind:  # Reservations of stopped VMs are only there.
            return held != [holders.of_vgpu(visit, vgpu) for vgpu in gpu.vgpus]
        found, name = change.after or change.before, change.key.name
        if change.kind in ("gpus", "pci"):
            return name == gpu.name
        if change.kind in ("nodes", "device_nodes"):
            return name == gpu.node
        if change.kind == "vgpus":
            parent = found.spec.node_name, found.spec.parent_gpu_device_address
            return name in functions or parent == (gpu.node, gpu.address)
        if change.kind == "migs":
            return (found.spec.node_name, found.spec.gpu_address) == (gpu.node, gpu.address)
        if change.kind == "claims":
            return bool(found.spec.node_name == gpu.node)
        if change.kind == "layouts":
            own = (one for one in (change.before, change.after) if one is not None)
            named = any(entry.name == gpu.name for one in own for entry in one.status.gpus)
            return named or name == gpu.name
        return False

    return shows


async def _prepare(visit: Visit) -> None:
    await holders.load(visit, reading.named(visit).vgpus)


PAGES = (
    Page(
        "/gpus/{name}",
        "gpus-one.html",
        _context,
        kinds=KINDS_READ,
        needs=(LIST,),
        asks=(PATCH_GPU,),
        prepare=_prepare,
    ),
)
ACTIONS: tuple[Action, ...] = ()
