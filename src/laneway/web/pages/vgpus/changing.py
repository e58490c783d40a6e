"""Enabling and disabling vGPUs, one or many: first what would become of each, then the change.

The functions and the profile are in the query. What would become of each is asked of the API
server, whose webhooks judge a dry run as they judge the write. The form then sends those functions
that are still selected; each is changed for itself, and has its own result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from laneway.api import VGPUDevice
from laneway.changes import vgpu_devices as changes
from laneway.changes.answered import failure
from laneway.changes.vgpu_devices import Desired
from laneway.core.phrases import short_name
from laneway.kube.errors import CredentialsError, KubeError, UnauthorizedError
from laneway.views.gpus import Gpu, gpu_name, node_of
from laneway.views.vgpu_state import owner_layout
from laneway.web import holders
from laneway.web.page import Action, Again, Context, Done, Item, Outcome, Page, Report
from laneway.web.pages.gpus.reading import gpus_of
from laneway.web.pages.gpus.states import ordered
from laneway.web.pages.vgpus.listing import LIST, PARENT, PATCH
from laneway.web.pages.vgpus.picking import Chosen, picker_of
from laneway.web.pages.vgpus.rows import KINDS, Row, Source
from laneway.web.place import link
from laneway.web.visit import Visit

MOST = 128
"""Functions that are changed at once: those of a node with eight GPUs."""
_AT_ONCE = 8
_TRIED = "tried"

Judged = Literal["ready", "unchanged", "refused", "unknown"]


class Tried(NamedTuple):
    """What would become of a function."""

    row: Row
    outcome: Judged
    words: str
    holder: holders.Holder | None


def _named(visit: Visit, names: Iterable[str]) -> list[VGPUDevice]:
    """The functions of these names that exist, in the order of nodes, GPUs and addresses."""
    store = visit.caches.vgpus.store
    found = [store.get(name) for name in dict.fromkeys(names)]
    return sorted((one for one in found if one is not None), key=_place)


def _place(vgpu: VGPUDevice) -> tuple[object, ...]:
    return ordered(node_of(vgpu)), vgpu.spec.parent_gpu_device_address, vgpu.spec.address


def _selected(visit: Visit) -> list[VGPUDevice]:
    """The functions in the query: single ones, or those of a GPU that have a vGPU."""
    place, caches = visit.place, visit.caches
    if parent := place.get(PARENT):
        gpu = caches.gpus.store.get(parent)
        if gpu is None:
            return []
        is_disable = place.get("do") == "disable"
        of_gpu = caches.vgpus_of(node_of(gpu), gpu.spec.address)
        shown = (
            one for one in of_gpu if bool(one.spec.enabled or one.status.vgpu_status) == is_disable
        )
        return sorted(shown, key=_place)
    return _named(visit, place.all("row"))


def _with_gpus(visit: Visit, vgpus: Sequence[VGPUDevice]) -> Chosen:
    names = [gpu_name(one.spec.node_name, one.spec.parent_gpu_device_address) for one in vgpus]
    found = (visit.caches.gpus.store.get(name) for name in dict.fromkeys(names))
    by_name: dict[str, Gpu] = {
        gpu.name: gpu
        for gpu in gpus_of(visit.caches, [device for device in found if device is not None])
    }
    return [(vgpu, by_name.get(name)) for vgpu, name in zip(vgpus, names, strict=True)]


def _desired(visit: Visit, profile: str) -> Desired | None:
    """The desired state in the query; None until a profile is chosen."""
    if visit.place.get("do") == "disable":
        return Desired("")
    return Desired(profile) if profile else None


# --------------------------------------------------------------------------------------- dry run


async def _prepare(visit: Visit) -> None:
    vgpus = _selected(visit)[:MOST]
    await holders.load(visit, vgpus)
    desired = _desired(visit, visit.place.get("profile"))
    if desired is not None:
        visit.data[_TRIED] = await _tried(visit, vgpus, desired)


async def _tried(visit: Visit, vgpus: Sequence[VGPUDevice], desired: Desired) -> list[Tried]:
    turns = asyncio.Semaphore(_AT_ONCE)
    devices = [(vgpu, gpu.device if gpu else None) for vgpu, gpu in _with_gpus(visit, vgpus)]
    no_room = changes.crowded(devices, desired.profile) if desired.profile else {}
    source = Source(visit.caches)

    async def one(vgpu: VGPUDevice) -> Tried | None:
        row = source.build(vgpu.metadata.name)
        if row is None:
            return None
        async with turns:
            outcome, words = await _judged(visit, vgpu, desired)
        if outcome == "ready" and row.name in no_room:
            outcome, words = "refused", no_room[row.name]
        return Tried(row, outcome, words, holders.of_vgpu(visit, vgpu))

    return [found for found in await asyncio.gather(*map(one, vgpus)) if found is not None]


async def _judged(visit: Visit, vgpu: VGPUDevice, desired: Desired) -> tuple[Judged, str]:
    """What the API server and its webhooks would do."""
    if desired.is_met(vgpu):
        return "unchanged", ""
    try:
        await changes.write(visit.client, vgpu.metadata.name, desired, dry_run=True)
    except (UnauthorizedError, CredentialsError):
        raise  # the session is over
    except KubeError as error:
        return failure(error)
    return "ready", _effect(visit, vgpu, desired)


def _effect(visit: Visit, vgpu: VGPUDevice, desired: Desired) -> str:
    """What a change means besides what it is for."""
    there = short_name(vgpu.status.configure_vgpu_type_name)
    if not vgpu.status.vgpu_status:
        return ""
    if not desired.profile:
        return visit.texts("vgpus.removes", profile=there)
    if vgpu.status.configure_vgpu_type_name != desired.profile:
        return visit.texts("vgpus.replaces", profile=there)
    return ""


# ------------------------------------------------------------------------------------------ page


def _context(visit: Visit) -> Context:
    texts, place = visit.texts, visit.place
    is_disable = place.get("do") == "disable"
    every = _selected(visit)
    vgpus = every[:MOST]
    picker = None if is_disable else picker_of(_with_gpus(visit, vgpus))
    chosen = place.get("profile")
    tried: list[Tried] = visit.data.get(_TRIED, [])
    source = Source(visit.caches)
    built = (source.build(vgpu.metadata.name) for vgpu in vgpus)
    rows = [one.row for one in tried] or [row for row in built if row is not None]
    sent = set(visit.form.get("row", ())) if visit.form else None
    ready = [one for one in tried if one.outcome == "ready"]
    return {
        "title": texts("vgpus.disable_title" if is_disable else "vgpus.enable_title"),
        "is_disable": is_disable,
        "rows": rows,
        "tried": tried,
        "picker": picker,
        "chosen": chosen,
        "short": short_name(chosen),
        "left_out": len(every) - len(vgpus),
        "kinds": KINDS,
        "ready": ready,
        "checked": lambda one: (
            one.row.name in sent if sent is not None else one.outcome in ("ready", "unknown")
        ),
        "owner": lambda row: owner_layout(row.vgpu.status.owner),
        "blocked": _blocked(visit, rows, is_disable=is_disable, chosen=chosen, tried=tried),
        "place_rows": [(key, value) for key, value in place.query if key in ("row", PARENT)],
        "back": link("vgpus", rows[0].name) if len(rows) == 1 else "/vgpus",
    }


def _blocked(
    visit: Visit, rows: Sequence[object], *, is_disable: bool, chosen: str, tried: Sequence[Tried]
) -> str:
    """Why nothing can be sent; empty where it can."""
    texts = visit.texts
    if not rows:
        return texts("vgpus.nothing_selected")
    if not visit.may(PATCH):
        return texts("vgpus.may_not_patch")
    if not (is_disable or chosen):
        return texts("vgpus.choose_first")
    if all(one.outcome in ("refused", "unchanged") for one in tried):
        refused = [one.words for one in tried if one.outcome == "refused"]
        return refused[0] if len(tried) == 1 and refused else texts("vgpus.none_possible")
    return ""


# ----------------------------------------------------------------------------------------- apply


async def _apply(visit: Visit) -> Done | Again | Report:
    vgpus = _named(visit, visit.all_sent("row"))[:MOST]
    desired = _desired(visit, visit.place.get("profile"))
    if not vgpus:
        return Again({"": [visit.texts("vgpus.nothing_selected")]})
    if desired is None:
        return Again({"": [visit.texts("vgpus.choose_first")]})
    items = [await _changed(visit, vgpu, desired) for vgpu in vgpus]
    if len(items) == 1:
        [item] = items
        if item.outcome in ("refused", "unknown"):
            return Again({"": [item.words]})
        return Done(item.url, item.words)
    key = "vgpus.disable_title" if not desired.profile else "vgpus.enable_title"
    return Report(visit.texts(key), items, _next(vgpus))


def _next(vgpus: Sequence[VGPUDevice]) -> str:
    """The table with the functions of the same GPU or node, where they have one in common."""
    parents = {gpu_name(one.spec.node_name, one.spec.parent_gpu_device_address) for one in vgpus}
    if len(parents) == 1:
        return f"/vgpus?{PARENT}={parents.pop()}"
    return "/vgpus"


async def _changed(visit: Visit, vgpu: VGPUDevice, desired: Desired) -> Item:
    name = vgpu.metadata.name
    outcome, words = await _outcome(visit, vgpu, desired)
    return Item(name, link("vgpus", name), outcome, words)


async def _outcome(visit: Visit, vgpu: VGPUDevice, desired: Desired) -> tuple[Outcome, str]:
    if desired.is_met(vgpu):
        return "unchanged", visit.texts("vgpus.as_desired")
    try:
        await changes.write(visit.client, vgpu.metadata.name, desired)
    except KubeError as error:
        return failure(error)
    key = "vgpus.stored_enabled" if desired.profile else "vgpus.stored_disabled"
    profile = short_name(desired.profile)
    return "done", visit.texts(key, profile=profile, node=vgpu.spec.node_name)


PAGES = (
    Page(
        "/vgpus/change",
        "vgpus-change.html",
        _context,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/vgpus/change", _apply),)
