"""What `laneway explain` says first about the kinds of shared GPUs: the short answer.

What is, what is desired, what still fits, and what to do, in that order; the object itself follows.
The reasons and remedies are the agent's own words, from the conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from laneway.api import (
    LAYOUT_DONE,
    LayoutGpu,
    MigConfiguration,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.api.meta import Status
from laneway.core.gpu.modes import Mode
from laneway.core.phrases import short_name
from laneway.core.workload import Workload
from laneway.views import fragmentation, instances, memory, migration
from laneway.views.answers import answer_of
from laneway.views.gpus import Gpu
from laneway.views.order import natural
from laneway.views.page import Fact, Page, Section, fact
from laneway.views.profiles import counts, room
from laneway.views.state import layout_state, mode, state
from laneway.views.vgpus import profiles

Explained = SRIOVGPUDevice | VGPUDevice | MigConfiguration | VGPULayout
KINDS: dict[str, type[Explained]] = {
    kind.__name__: kind for kind in (SRIOVGPUDevice, VGPUDevice, MigConfiguration, VGPULayout)
}


def with_answer(page: Page, stored: Explained, gpu: Gpu | None) -> Page:
    """The page of an object, with the short answer before it."""
    answer = Section("In short", tuple(_facts(stored, gpu)), tuple(_layout_lines(stored)))
    advice = Section("What to do", lines=tuple(_advice(stored, gpu)))
    return Page(page.title, (answer, _memory(stored, gpu), advice, *page.sections))


def _memory(stored: Explained, gpu: Gpu | None) -> Section:
    """The picture of the GPU's memory, for the GPU itself and for its GPU instances."""
    if gpu is None or not isinstance(stored, SRIOVGPUDevice | MigConfiguration):
        return Section("Memory")
    shown = memory.picture(gpu)
    return Section(memory.title(shown), picture=shown)


def _facts(stored: Explained, gpu: Gpu | None) -> Iterator[Fact]:
    if isinstance(stored, VGPUDevice):
        yield from _vgpu(stored)
    if isinstance(stored, MigConfiguration):
        yield from _mig(stored)
    if isinstance(stored, VGPULayout):
        yield fact("GPUs as desired", stored.status.summary)
        wanted: Counter[str] = Counter()
        for one in stored.spec.vgpus:
            wanted[one.profile] += one.count
        asked = counts(wanted)
        yield fact("vGPUs on each", asked or "no vGPU")
        yield fact("in mode", stored.spec.mode)
        yield fact("dry run", "yes, nothing is changed" * stored.spec.dry_run)
    if gpu is not None:
        yield from _gpu(gpu)


def _vgpu(vgpu: VGPUDevice) -> Iterator[Fact]:
    spec, status = vgpu.spec, vgpu.status
    is_there = short_name(status.configure_vgpu_type_name) or "a vGPU of an unknown profile"
    where = f" in GPU instance {status.gpu_instance}" if status.gpu_instance is not None else ""
    yield fact("is", f"{is_there}{where}" if status.vgpu_status else "no vGPU")
    if (has := status.allocation) is not None:
        yield fact("held by", str(Workload(has.namespace, has.pod, has.virtual_machine)))
    yield fact(
        "desired",
        (short_name(spec.vgpu_type_name) or "a vGPU, unnamed") if spec.enabled else "no vGPU",
    )
    possible = sorted(map(short_name, status.available_types), key=natural)
    yield fact("possible now", ", ".join(possible) or "nothing")


def _mig(mig: MigConfiguration) -> Iterator[Fact]:
    found = instances.counted({one.name: len(one.vgpu_ids) for one in mig.status.profile_status})
    desired = instances.counted({one.name: one.requested for one in mig.spec.profile_spec})
    yield fact("is", found or "no GPU instance", mig.status.status)
    yield fact("desired", (desired or "no GPU instance") if mig.spec.enabled else "not enabled")
    yield fact("differs", mig.status.message)


def _gpu(gpu: Gpu) -> Iterator[Fact]:
    carried, missing = profiles(gpu)
    yield fact("GPU", f"{gpu.title} {gpu.board}".rstrip())
    yield fact("configured by", gpu.device.status.owner)
    yield fact("its node", gpu.stale)
    yield fact("its state", state(gpu))
    yield fact("its mode", mode(gpu))
    yield fact("it has", counts(carried) or "no vGPU")
    yield fact("desired, missing", counts(missing))
    yield fact("GPU instances", instances.of_gpu(gpu))
    yield fact("it has room for", room(gpu.device.status.fits))
    yield fact("and for instances", instances.room(gpu))
    yield fact("largest that fits", fragmentation.words(gpu))
    yield fact("migration group", migration.words(gpu))
    yield fact("claimed whole by", gpu.claim.metadata.name if gpu.claim is not None else "")
    yield fact("layouts", *(_layout(layout, entry) for layout, entry in gpu.layouts))


def _layout(layout: VGPULayout, entry: LayoutGpu) -> str:
    only = " (dry run)" if layout.spec.dry_run else ""
    return f"{layout.metadata.name}{only}: {layout_state(layout, entry)}"


def _layout_lines(stored: Explained) -> Iterator[str]:
    """What a layout says about each of its GPUs."""
    if not isinstance(stored, VGPULayout):
        return
    for entry in sorted(stored.status.gpus, key=lambda one: natural(one.name)):
        old = " (to an earlier spec)" * (entry.observed_generation < stored.metadata.generation)
        yield f"{entry.name}: {entry.state or 'no answer'}{old}"
        if entry.message:
            yield f"  {entry.message}"
        yield from (f"  {number}. {step}" for number, step in enumerate(entry.steps, 1))
        if entry.state != LAYOUT_DONE and (fits := room(entry.fits)):
            yield f"  room now: {fits}"
        if fits := room(entry.fits_afterwards):
            yield f"  room afterwards: {fits}"


def _advice(stored: Explained, gpu: Gpu | None) -> Iterator[str]:
    """What prevents it, in the agent's words; otherwise the next step."""
    if gpu is not None and gpu.stale:
        yield f"This may be out of date: {gpu.stale}."
        return
    if isinstance(stored, VGPULayout) and stored.spec.dry_run and stored.status.gpus:
        yield (
            f"To apply it: kubectl patch vgpulayout {stored.metadata.name} --type merge "
            """-p '{"spec":{"dryRun":false}}'"""
        )
        return
    status: Status = stored.status
    answer = answer_of(status, stored.metadata.generation)
    if answer.kind == "none":
        node = "its node" if gpu is None else f"node {gpu.node}"
        yield f"The agent of {node} has not answered yet. Check that it runs."
    elif answer.kind == "refused":
        yield answer.message or answer.reason
    elif answer.kind == "working":
        yield f"Wait: {answer.message or answer.reason}"
    elif gpu is not None and not isinstance(stored, MigConfiguration):
        yield from _next(gpu)


def _next(gpu: Gpu) -> Iterator[str]:
    if not gpu.device.spec.enabled:
        chosen = gpu.device.spec.mode in (Mode.PASSTHROUGH, Mode.MIG)
        yield f"To share it: laneway gpu enable {gpu.title}{' --mode SameSize' * chosen}"
    else:
        yield f"To choose all its vGPUs at once: laneway vgpu set {gpu.title} PROFILE=COUNT"
        yield f"To see first what that would do: laneway vgpu set {gpu.title} ... --dry-run"
