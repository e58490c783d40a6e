"""The GPU instances of one GPU: their picture, what is in them, and what still fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.mig.profiles import bare_name
from laneway.views.explain.gpu import with_answer
from laneway.views.gpus import Gpu
from laneway.views.page import Page as Explained
from laneway.web import holders
from laneway.web.page import Context, Page
from laneway.web.pages.gpus import detail as of_gpus
from laneway.web.pages.gpus import drawing
from laneway.web.pages.mig import parts
from laneway.web.pages.mig.listing import KINDS, LIST, PATCH, row_of
from laneway.web.pages.mig.parts import Instance
from laneway.web.pictures.gpu import gpu_picture
from laneway.web.pictures.of_gpu import places_of
from laneway.web.pictures.places import Choice, places
from laneway.web.place import address, link
from laneway.web.visit import Visit


class Profile(NamedTuple):
    """A profile of GPU instances."""

    name: str
    instances: Sequence[Instance]
    available: int
    requested: int
    total: int


def _context(visit: Visit) -> Context:
    gpu, mig = parts.named(visit)
    row = row_of(visit.caches, gpu.name)
    picture = drawing.of_gpu(visit, gpu) if gpu.has_mig else None
    why_not = parts.against(visit, gpu)
    sections = with_answer(Explained("", ()), mig, gpu).sections
    free = places_of(gpu) if picture is not None else ()
    change = link("mig", gpu.name, "change")
    return {
        "title": visit.texts("mig.title", gpu=gpu.title),
        "gpu": gpu,
        "mig": mig,
        "row": row,
        "kinds": KINDS,
        "picture": gpu_picture(picture, ids="gpu", say=visit.texts) if picture else "",
        "places": places(
            [Choice(place=one, href=_added(gpu, change, one.profile)) for one in free],
            mib=picture.mib,
            ids="places",
            say=visit.texts,
        )
        if picture is not None and not why_not
        else "",
        "is_mig": gpu.has_mig,
        "profiles": _profiles(visit, gpu),
        "sections": [one for one in sections if one.shown and not one.picture],
        "why_not": why_not,
        "change": change,
        "mode": link("gpus", gpu.name, "mode"),
        "yaml": link("objects", "migconfigurations", gpu.name),
        "concerns": of_gpus.concerns(visit, gpu),
    }


def _profiles(visit: Visit, gpu: Gpu) -> list[Profile]:
    mig, there = gpu.mig, parts.instances(visit, gpu)
    if mig is None:
        return []
    asked = {bare_name(one.name): one.requested for one in mig.spec.profile_spec}
    return [
        Profile(
            name,
            [instance for instance in there if instance.profile == name],
            one.available,
            asked.get(name, 0),
            one.total,
        )
        for one in mig.status.profile_status
        for name in [bare_name(one.name)]
    ]


def _added(gpu: Gpu, change: str, profile: str) -> str:
    """The plan with one more GPU instance of a profile."""
    counts = parts.counts_now(gpu)
    return address(change, parts.query_of({**counts, profile: counts.get(profile, 0) + 1}))


async def _prepare(visit: Visit) -> None:
    gpu, _ = parts.named(visit)
    await holders.load(visit, gpu.vgpus)


PAGES = (
    Page(
        "/mig/{name}",
        "mig-one.html",
        _context,
        kinds=of_gpus.KINDS_READ,
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
