"""The plan of a GPU's instances: how many of each profile, where they would be, what would go.

The numbers are in the query. Whether they fit together is worked out as the node does it, and the
API server is asked by a dry run, so a plan that cannot be has its reason before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.api import MigConfiguration
from laneway.changes import instances as fields_of
from laneway.changes import specs
from laneway.changes.answered import words_of
from laneway.kube.errors import CredentialsError, KubeError, UnauthorizedError
from laneway.kube.resource import served
from laneway.views import instances
from laneway.views.gpus import Gpu
from laneway.views.mig_planned import Planned, planned, totals
from laneway.web import holders
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.gpus import detail as of_gpus
from laneway.web.pages.gpus import drawing
from laneway.web.pages.mig import parts
from laneway.web.pages.mig.listing import KINDS, LIST, PATCH, row_of
from laneway.web.pages.mig.parts import FIELD
from laneway.web.pictures.drawing import GpuDrawing
from laneway.web.pictures.gpu import gpu_change, gpu_picture
from laneway.web.pictures.places import Choice, places
from laneway.web.pictures.planned import with_instances
from laneway.web.place import Place, address, link
from laneway.web.visit import Visit

MOST = 99
_REFUSED = "refused"


class Counts(NamedTuple):
    """The contents of the fields."""

    instances: Mapping[str, int]
    """By profile, without those of which there are to be none."""
    problems: Mapping[str, str]
    """By profile, the text that is no number."""
    is_made: bool
    """Whether anything has been planned yet."""
    is_off: bool
    """Whether the GPU is to have none, and its MigConfiguration is to be disabled."""


def counts_in(place: Place, gpu: Gpu) -> Counts:
    """The plan in the query, or what the GPU is to have now."""
    if place.get("off"):
        return Counts({}, {}, is_made=True, is_off=True)
    if not place.get("plan"):
        return Counts(parts.counts_now(gpu), {}, is_made=False, is_off=False)
    found: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name in totals(gpu):
        text = place.get(f"{FIELD}{name}").strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) < 3):
            problems[name] = text
        elif text and int(text):
            found[name] = int(text)
    return Counts(found, problems, is_made=True, is_off=False)


def _fields(mig: MigConfiguration, counts: Counts) -> Mapping[str, object]:
    return fields_of.fields(mig, None if counts.is_off else counts.instances)


async def _prepare(visit: Visit) -> None:
    gpu, mig = parts.named(visit)
    await holders.load(visit, gpu.vgpus)
    counts = counts_in(visit.place, gpu)
    if not counts.is_made or counts.problems or not visit.may(PATCH):
        return
    try:
        await specs.write(
            visit.client, served(MigConfiguration), gpu.name, _fields(mig, counts), dry_run=True
        )
    except (UnauthorizedError, CredentialsError):
        raise  # the session is over
    except KubeError as error:
        visit.data[_REFUSED] = words_of(error)


def _context(visit: Visit) -> Context:
    gpu, _ = parts.named(visit)
    counts = counts_in(visit.place, gpu)
    now = drawing.of_gpu(visit, gpu)
    found = (
        None
        if counts.problems
        else planned(gpu, counts.instances, holders.by_function(visit, gpu.vgpus))
    )
    refusals = _refusals(visit, gpu, counts, found)
    gone = set(found.removed) if found is not None and counts.is_made else set()
    key = "mig.disable_title" if counts.is_off else "mig.change_title"
    return {
        "title": visit.texts(key, gpu=gpu.title),
        "gpu": gpu,
        "row": row_of(visit.caches, gpu.name),
        "kinds": KINDS,
        "back": link("mig", gpu.name),
        "path": link("mig", gpu.name, "change"),
        "counts": counts,
        "most": MOST,
        "totals": totals(gpu),
        "presets": _presets(visit, gpu),
        "picture": _picture(visit, now, counts, found, refusals),
        "places": _places(visit, gpu, now, counts, found),
        "refusals": refusals,
        "steps": found.steps if found is not None and counts.is_made else (),
        "lost": [one for one in parts.instances(visit, gpu) if one.id in gone],
        "summary": instances.counted(counts.instances),
        "blocked": _blocked(visit, gpu, counts, refusals),
        "concerns": of_gpus.concerns(visit, gpu),
    }


def _refusals(visit: Visit, gpu: Gpu, counts: Counts, found: Planned | None) -> Sequence[str]:
    """Everything that speaks against the plan; the API server's words first."""
    if not counts.is_made or counts.problems:
        return ()
    if why := parts.against(visit, gpu):
        return (why,)
    if refused := visit.data.get(_REFUSED):
        return (refused,)
    return found.refusals if found is not None else ()


def _presets(visit: Visit, gpu: Gpu) -> list[tuple[str, str]]:
    """Plans to begin with: as many as fit of one profile, and none."""
    path = link("mig", gpu.name, "change")
    found = [
        (instances.counted({name: total}), address(path, parts.query_of({name: total})))
        for name, total in totals(gpu).items()
        if total
    ]
    return [*found, (visit.texts("mig.none_of_them"), address(path, parts.query_of({})))]


def _picture(
    visit: Visit,
    now: GpuDrawing | None,
    counts: Counts,
    found: Planned | None,
    refusals: Sequence[str],
) -> str:
    if now is None:
        return ""
    if not counts.is_made or found is None or refusals or not (found.added or found.removed):
        return gpu_picture(now, ids="plan", say=visit.texts)
    after = with_instances(now, found.added, removed=set(found.removed))
    return gpu_change(now, after, ids="plan", say=visit.texts)


def _places(
    visit: Visit, gpu: Gpu, now: GpuDrawing | None, counts: Counts, found: Planned | None
) -> str:
    """Where one more GPU instance would fit after the plan, to choose from."""
    if now is None or found is None or counts.is_off or found.refusals:
        return ""
    path = link("mig", gpu.name, "change")

    def added(profile: str) -> str:
        more = {**counts.instances, profile: counts.instances.get(profile, 0) + 1}
        return address(path, parts.query_of(more))

    choices = [Choice(place=one, href=added(one.profile)) for one in found.room]
    return places(choices, mib=now.mib, ids="places", say=visit.texts)


def _blocked(visit: Visit, gpu: Gpu, counts: Counts, refusals: Sequence[str]) -> str:
    """Why nothing can be sent; empty where it can."""
    texts = visit.texts
    if why := parts.against(visit, gpu):
        return why
    if not counts.is_made:
        return texts("mig.nothing_planned")
    if counts.problems:
        return texts("mig.fields_wrong")
    return refusals[0] if refusals else ""


async def _apply(visit: Visit) -> Done | Again:
    gpu, mig = parts.named(visit)
    counts = counts_in(visit.place, gpu)
    if not counts.is_made or counts.problems:
        return Again({"": [visit.texts("mig.fields_wrong")]})
    await holders.load(visit, gpu.vgpus)
    found = planned(gpu, counts.instances, holders.by_function(visit, gpu.vgpus))
    if reasons := _refusals(visit, gpu, counts, found):
        return Again({"": reasons})
    await specs.write(visit.client, served(MigConfiguration), gpu.name, _fields(mig, counts))
    asked = instances.counted(counts.instances)
    key = "mig.stored_off" if counts.is_off else "mig.stored" if asked else "mig.stored_none"
    return Done(link("mig", gpu.name), visit.texts(key, instances=asked, node=gpu.node))


PAGES = (
    Page(
        "/mig/{name}/change",
        "mig-change.html",
        _context,
        kinds=of_gpus.KINDS_READ,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/mig/{name}/change", _apply),)
