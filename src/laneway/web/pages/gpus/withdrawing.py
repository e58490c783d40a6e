"""Withdraw the layout of one GPU: what is refused changes nothing later, and the rest is released.

A layout is deleted, which changes no vGPU. Only one that was applied and whose new spec is refused
stays, with what the GPU has: as `laneway vgpu set` does after a refusal.
"""

from __future__ import annotations

import contextlib

from laneway.api import LayoutGpu, VGPULayout
from laneway.changes import vgpus as changes
from laneway.changes.vgpus import Desired
from laneway.core.gpu.modes import mode_named
from laneway.kube.errors import NotFoundError
from laneway.views.gpus import Gpu
from laneway.views.profiles import counts
from laneway.views.state import layout_state
from laneway.views.vgpus import profiles
from laneway.web.page import Action, Context, Done, NotFound, Page
from laneway.web.pages.gpus import detail, reading, trials
from laneway.web.pages.gpus.listing import LIST
from laneway.web.pages.gpus.states import entries, is_refused
from laneway.web.place import link
from laneway.web.visit import Visit


def _own(visit: Visit) -> tuple[Gpu, VGPULayout, LayoutGpu]:
    """The GPU with its own layout. Raises NotFound where it has none."""
    gpu = reading.named(visit)
    own = reading.own_layout(visit, gpu)
    if own is None:
        raise NotFound(gpu.name)
    said = (entry for layout, entry in entries(gpu) if layout == own)
    return gpu, own, next(said, LayoutGpu(name=gpu.name))


def _is_kept(layout: VGPULayout, entry: LayoutGpu) -> bool:
    """Whether it stays a layout of the GPU: only its last spec is refused."""
    return is_refused(layout, entry) and entry.accepted_generation > 0


def _present(gpu: Gpu) -> Desired:
    """What the GPU is now, as a desired state."""
    carried, _ = profiles(gpu)
    mode = mode_named(gpu.device.status.mode)
    return Desired(carried, mode.value if mode is not None and mode.has_vfs else "")


def _context(visit: Visit) -> Context:
    gpu, layout, entry = _own(visit)
    is_kept = _is_kept(layout, entry)
    needed = trials.PATCH if is_kept else trials.DELETE
    carried, _ = profiles(gpu)
    texts = visit.texts
    blocked = "" if visit.may(needed) else texts("gpus.no_layout_right", verb=needed.verb)
    return {
        "title": texts("gpus.withdraw_title", gpu=gpu.title),
        "gpu": gpu,
        "back": link("gpus", gpu.name),
        "words": layout_state(layout, entry),
        "name": layout.metadata.name,
        "is_kept": is_kept,
        "carried": counts(carried) or texts("gpus.none_of_them"),
        "blocked": blocked,
    }


async def _withdraw(visit: Visit) -> Done:
    gpu, layout, entry = _own(visit)
    name = layout.metadata.name
    with contextlib.suppress(NotFoundError):
        if _is_kept(layout, entry):
            await changes.write(visit.client, gpu, _present(gpu), layout)
        else:
            await visit.client.delete(trials.LAYOUT, name, uid=layout.metadata.uid)
    return Done(link("gpus", gpu.name), visit.texts("gpus.withdrawn", name=name))


PAGES = (
    Page(
        "/gpus/{name}/withdraw",
        "gpus-withdraw.html",
        _context,
        kinds=detail.KINDS_READ,
        needs=(LIST,),
        asks=trials.ASKED,
    ),
)
ACTIONS = (Action("/gpus/{name}/withdraw", _withdraw),)
