"""One vGPU device: its state, how far its agent is, what is possible on it, and its holder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from laneway.api import VGPUDevice
from laneway.changes import vgpu_devices as changes
from laneway.core.use import Use, VmState
from laneway.views.explain.gpu import with_answer
from laneway.views.gpus import Gpu
from laneway.views.page import Page as Explained
from laneway.views.profiles import alternatives
from laneway.web import holders
from laneway.web.caches import LEDGER, Change
from laneway.web.page import Context, NotFound, Page
from laneway.web.pages.gpus import detail as of_gpus
from laneway.web.pages.gpus.reading import gpus_of
from laneway.web.pages.gpus.states import entries
from laneway.web.pages.vgpus.listing import LIST, PATCH
from laneway.web.pages.vgpus.picking import picker_of
from laneway.web.pages.vgpus.rows import KINDS, Row, Source
from laneway.web.place import link
from laneway.web.visit import Visit


def _row(visit: Visit) -> Row:
    name = visit.name("name")
    if (row := Source(visit.caches).build(name)) is None:
        raise NotFound(name)
    return row


def _gpu(visit: Visit, row: Row) -> Gpu | None:
    device = visit.caches.gpus.store.get(row.gpu)
    return gpus_of(visit.caches, [device])[0] if device is not None else None


def _context(visit: Visit) -> Context:
    row = _row(visit)
    gpu, vgpu, texts = _gpu(visit, row), row.vgpu, visit.texts
    holder = holders.of_vgpu(visit, vgpu)
    sections = with_answer(Explained("", ()), _without_holder(vgpu), gpu).sections
    is_there = vgpu.spec.enabled or bool(vgpu.status.vgpu_status)
    picker = picker_of([(vgpu, gpu)])
    return {
        "title": row.name,
        "row": row,
        "vgpu": vgpu,
        "kinds": KINDS,
        "gpu": gpu,
        "holder": holder,
        "steps": _steps(row, gpu),
        "sections": [one for one in sections if one.shown],
        "possible": _possible(vgpu, gpu),
        "closed": picker.closed,
        "enable": texts("vgpus.change_profile" if is_there else "vgpus.enable_one"),
        "why_not_enable": _why_not(visit, row, holder),
        "why_not_disable": _why_not(visit, row, holder)
        or ("" if is_there else texts("vgpus.has_none")),
        "change": f"/vgpus/change?row={row.name}&do=",
        "yaml": link("objects", "vgpudevices", row.name),
        "concerns": _concerns(visit, vgpu, gpu, holder),
    }


def _steps(row: Row, gpu: Gpu | None) -> Sequence[tuple[str, Sequence[str]]]:
    """Layouts that are being applied to the GPU, each with its steps that are left."""
    if gpu is None or row.state.kind != "progress":
        return []
    return [(layout.metadata.name, entry.steps) for layout, entry in entries(gpu) if entry.steps]


def _without_holder(vgpu: VGPUDevice) -> VGPUDevice:
    """The holder is shown apart, as far as the user may see it."""
    return replace(vgpu, status=replace(vgpu.status, allocation=None))


def _possible(vgpu: VGPUDevice, gpu: Gpu | None) -> list[str]:
    """The profiles that the function can have, with how many of each still fit on the GPU."""
    fits = gpu.device.status.fits if gpu is not None else {}
    return alternatives({name: fits.get(name, 1) for name in vgpu.status.available_types})


def _why_not(visit: Visit, row: Row, holder: holders.Holder | None) -> str:
    """Why the user cannot change the vGPU now; empty where nothing is known against it."""
    if not visit.may(PATCH):
        return visit.texts("vgpus.may_not_patch")
    if holder is not None and row.vgpu.spec.enabled and not (holder.url or row.layout):
        return visit.texts("vgpus.held", holder=holder.text)
    uses: list[Use] = []
    if holder is not None and holder.consumer is not None:
        state = VmState.STOPPED if holder.is_stopped else VmState.RUNS
        uses.append(Use(holder.consumer, state))
    return next(iter(changes.against(row.vgpu, row.gpu, uses)), "")


def _concerns(
    visit: Visit, vgpu: VGPUDevice, gpu: Gpu | None, holder: holders.Holder | None
) -> Callable[[Change], bool]:
    of_gpu = of_gpus.concerns(visit, gpu) if gpu is not None else None
    name = vgpu.metadata.name

    def shows(change: Change) -> bool:
        if change.kind == LEDGER.kind:
            return holders.of_vgpu(visit, vgpu) != holder
        if change.kind == "vgpus" and change.key.name == name:
            return True
        return of_gpu is not None and of_gpu(change)

    return shows


async def _prepare(visit: Visit) -> None:
    await holders.load(visit, [_row(visit).vgpu])


PAGES = (
    Page(
        "/vgpus/{name}",
        "vgpus-one.html",
        _context,
        kinds=of_gpus.KINDS_READ,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
