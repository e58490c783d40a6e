"""One change of several GPUs: tried on each first, then made on each, with a result for each.

Nothing is changed from a list directly. A GPU that refuses holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from laneway.changes import gpus as mode_changes
from laneway.changes import vgpus as vgpu_changes
from laneway.changes.answered import failure
from laneway.changes.errors import ChangeError
from laneway.core.vgpu.spelling import in_full
from laneway.kube.errors import KubeError
from laneway.views.gpus import Gpu
from laneway.views.profiles import counts
from laneway.views.state import mode, state
from laneway.web import holders
from laneway.web.page import Action, Again, Context, Item, Outcome, Page, Report
from laneway.web.pages.gpus import detail, modes, planning, trials
from laneway.web.pages.gpus.listing import LIST
from laneway.web.pages.gpus.profiles import Counts, common, counts_in
from laneway.web.pages.gpus.reading import own_layout, several
from laneway.web.pages.gpus.trials import Asked
from laneway.web.place import link
from laneway.web.visit import Visit

MOST = 100
"""GPUs in one change, as many as a page of the list has."""
VGPUS = "vgpus"
_JUDGED = "judged"


class Change(NamedTuple):
    """What is to be changed on every GPU."""

    to: str
    """A mode, `VGPUS`, or empty: nothing is chosen yet."""
    counts: Counts
    mode: str
    """Of `VGPUS`."""

    @property
    def is_made(self) -> bool:
        return bool(self.to) and not self.counts.problems


class Judged(NamedTuple):
    """What would become of one GPU."""

    outcome: Outcome
    """`done`: it would be done."""
    words: Sequence[str]
    steps: Sequence[str] = ()


def chosen(visit: Visit) -> tuple[Gpu, ...]:
    """The GPUs that were selected, in the order of nodes and addresses."""
    return several(visit, visit.place.all("row")[:MOST])


def change_of(visit: Visit, gpus: Sequence[Gpu]) -> Change:
    """The change in the query."""
    place = visit.place
    to, asked = place.get("to"), place.get("mode")
    return Change(
        to if to == VGPUS or to in modes.CHOICES else "",
        counts_in(place, common(gpus)),
        asked if asked in planning.MODES else "",
    )


def _vgpus(gpu: Gpu, change: Change) -> vgpu_changes.Desired:
    """The profiles as the driver of this GPU names them."""
    known = vgpu_changes.known(gpu)
    vgpus = {in_full(name, *known): count for name, count in change.counts.vgpus.items()}
    return vgpu_changes.Desired(vgpus, change.mode)


# ------------------------------------------------------------------------------------------ trial


async def _judged(visit: Visit, gpus: Sequence[Gpu], change: Change) -> dict[str, Judged]:
    """What would become of each GPU, by name."""
    await holders.load(visit, (vgpu for gpu in gpus for vgpu in gpu.vgpus))
    found: dict[str, Judged] = {}
    asked: list[tuple[Gpu, dict[str, Any]]] = []
    for gpu in gpus:
        if change.to == VGPUS:
            reasons = list(planning.against(visit, gpu))
            own = own_layout(visit, gpu)
            spec = vgpu_changes.trial_spec(gpu, _vgpus(gpu, change), own)
        else:
            desired = modes.CHOICES[change.to]
            if modes.is_present(gpu, desired):
                found[gpu.name] = Judged("unchanged", [visit.texts("gpus.no_steps")])
                continue
            reasons = list(modes.against(visit, gpu, desired))
            spec = mode_changes.trial_spec(gpu, desired)
        if reasons:
            found[gpu.name] = Judged("refused", reasons)
        else:
            asked.append((gpu, spec))
    answers = await trials.ask_all(visit, asked)
    return found | {name: _outcome(visit, answer) for name, answer in answers.items()}


def _outcome(visit: Visit, asked: Asked) -> Judged:
    if asked.trial is None and not asked.is_forbidden:
        return Judged("refused", [asked.why])
    if asked.trial is None:
        return Judged("unknown", [visit.texts("gpus.computed", why=asked.why)])
    if asked.trial.refusals:
        return Judged("refused", asked.trial.refusals)
    if not asked.trial.steps:
        return Judged("unchanged", [visit.texts("gpus.no_steps")])
    return Judged("done", (), asked.trial.steps)


async def _prepare(visit: Visit) -> None:
    gpus = chosen(visit)
    change = change_of(visit, gpus)
    if change.is_made and _JUDGED not in visit.data:
        visit.data[_JUDGED] = await _judged(visit, gpus, change)


def _context(visit: Visit) -> Context:
    gpus = chosen(visit)
    change = change_of(visit, gpus)
    texts = visit.texts
    judged: dict[str, Judged] = visit.data.get(_JUDGED, {})
    options = [("", texts("gpus.choose_change"))]
    options += [(name, texts(f"gpus.mode_{name}")) for name in modes.CHOICES]
    options.append((VGPUS, texts("gpus.same_vgpus")))
    possible = sum(one.outcome in ("done", "unknown") for one in judged.values())
    return {
        "title": texts.count("gpus.bulk_title", len(gpus)),
        "gpus": gpus,
        "rows": [gpu.name for gpu in gpus],
        "options": options,
        "change": change,
        "is_vgpus": change.to == VGPUS,
        "profiles": common(gpus),
        "modes": planning.mode_options(visit),
        "judged": judged,
        "state": state,
        "mode": mode,
        "carried": lambda gpu: counts(gpu.device.status.configured),
        "possible": possible,
        "blocked": _blocked(visit, change, possible),
        "left_out": max(0, len(visit.place.all("row")) - len(gpus)),
    }


def _blocked(visit: Visit, change: Change, possible: int) -> str:
    texts = visit.texts
    if not change.to:
        return texts("gpus.no_change_chosen")
    if change.counts.problems:
        return texts("gpus.fields_wrong")
    if change.to == VGPUS and not visit.may(trials.CREATE):
        return texts("gpus.no_layout_right", verb="create")
    if change.to != VGPUS and not visit.may(detail.PATCH_GPU):
        return texts("gpus.may_not_patch")
    return "" if possible else texts("gpus.none_possible")


# ------------------------------------------------------------------------------------------ apply


async def _apply(visit: Visit) -> Report | Again:
    gpus = chosen(visit)
    change = change_of(visit, gpus)
    if not change.is_made:
        return Again({"": [visit.texts("gpus.no_change_chosen")]})
    judged = await _judged(visit, gpus, change)
    items = await asyncio.gather(*(_made(visit, gpu, change, judged[gpu.name]) for gpu in gpus))
    return Report(visit.texts.count("gpus.bulk_report", len(gpus)), items, "/gpus")


async def _made(visit: Visit, gpu: Gpu, change: Change, judged: Judged) -> Item:
    """What became of one GPU."""
    url = link("gpus", gpu.name)
    if judged.outcome in ("refused", "unchanged"):
        return Item(gpu.title, url, judged.outcome, " ".join(judged.words))
    try:
        if change.to == VGPUS:
            own = own_layout(visit, gpu)
            await vgpu_changes.write(visit.client, gpu, _vgpus(gpu, change), own)
        else:
            await mode_changes.write(visit.client, gpu, modes.CHOICES[change.to])
    except (KubeError, ChangeError) as error:
        return Item(gpu.title, url, *failure(error))
    return Item(gpu.title, url, "done", visit.texts("gpus.bulk_stored"))


PAGES = (
    Page(
        "/gpus/change",
        "gpus-change.html",
        _context,
        kinds=frozenset({"gpus", "layouts"}),
        needs=(LIST,),
        asks=(detail.PATCH_GPU, *trials.ASKED),
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/gpus/change", _apply),)
