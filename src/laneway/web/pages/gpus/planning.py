"""`N x profile` of one GPU, planned before anything is written.

The whole plan is in the query. What would come of it is shown again after each change of a
field: the memory then, the steps, what would still fit and everything that speaks against it, as
the agent of the node answers a trial with the user's own token; without the right to ask it, as
the objects show it. The button stores exactly the plan that is shown, as one VGPULayout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from laneway.api import VGPULayout
from laneway.changes import vgpus as changes
from laneway.changes.trial import Trial
from laneway.changes.vgpus import Desired
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.core.vgpu.spelling import in_full
from laneway.views.gpus import Gpu
from laneway.views.memory import gib
from laneway.views.planned import Planned, planned
from laneway.views.profiles import alternatives, counts
from laneway.views.state import mode, state
from laneway.views.vgpus import profiles
from laneway.web import holders
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.gpus import detail, drawing, reading, trials
from laneway.web.pages.gpus.listing import LIST
from laneway.web.pages.gpus.profiles import Counts, Kinds, counts_in, kinds_of, texts_of
from laneway.web.pages.gpus.reading import BY, layouts_for, own_layout
from laneway.web.pages.gpus.states import KINDS, state_of
from laneway.web.pages.gpus.trials import Asked
from laneway.web.pictures.drawing import GpuDrawing
from laneway.web.pictures.gpu import gpu_change, gpu_picture
from laneway.web.place import link
from laneway.web.visit import Visit

MODES = tuple(one for one in Mode if one.has_vfs)
_TRIAL = "trial"


class Plan(NamedTuple):
    """What the query desires of the GPU."""

    is_made: bool
    """Whether the query has a plan at all; otherwise the fields show what there is."""
    counts: Counts
    mode: str
    """Empty: the one that the profiles need."""
    take_over: bool
    when_possible: bool

    @property
    def desired(self) -> Desired:
        return Desired(self.counts.vgpus, self.mode, self.take_over, self.when_possible)


def plan_of(visit: Visit, gpu: Gpu, kinds: Kinds) -> Plan:
    """The plan in the query, or what the GPU is to have now."""
    place, own = visit.place, own_layout(visit, gpu)
    if place.get("plan"):
        asked = place.get("mode")
        return Plan(
            True,
            counts_in(place, kinds),
            asked if mode_named(asked) in MODES else "",
            bool(place.get("takeOver")),
            bool(place.get("whenPossible")),
        )
    return Plan(False, _present(gpu, own), _mode_now(gpu, own), False, False)


def _present(gpu: Gpu, own: VGPULayout | None) -> Counts:
    """The vGPUs that the layout desires, or that are there or desired one by one."""
    vgpus: dict[str, int] = {}
    if own is not None:
        known = changes.known(gpu)
        for one in own.spec.vgpus:
            name = in_full(one.profile, *known)
            vgpus[name] = vgpus.get(name, 0) + one.count
    else:
        for found in profiles(gpu):
            for name, count in found.items():
                vgpus[name] = vgpus.get(name, 0) + count
    return Counts(vgpus, {}, texts_of(vgpus))


def _mode_now(gpu: Gpu, own: VGPULayout | None) -> str:
    """What the mode is to be where a user does not choose: as it is, if it is a choice."""
    if own is not None:
        return own.spec.mode if mode_named(own.spec.mode) in MODES else ""
    return Mode.MIXED_SIZE if gpu.device.status.mode == Mode.MIXED_SIZE else ""


def mode_options(visit: Visit) -> list[tuple[str, str]]:
    """The modes that vGPUs can be in, as a field offers them."""
    return [("", visit.texts("gpus.mode_as_needed")), *((one.value, one.value) for one in MODES)]


# ------------------------------------------------------------------------------------------ page


async def _prepare(visit: Visit) -> None:
    gpu = reading.named(visit)
    await holders.load(visit, gpu.vgpus)
    plan = plan_of(visit, gpu, kinds_of(gpu))
    is_asked = plan.is_made and not plan.counts.problems and not list(against(visit, gpu))
    if is_asked and _TRIAL not in visit.data:
        spec = changes.trial_spec(gpu, plan.desired, own_layout(visit, gpu))
        visit.data[_TRIAL] = await trials.ask(visit, gpu, spec)


def against(visit: Visit, gpu: Gpu) -> Iterator[str]:
    """Reasons against any change of its vGPUs."""
    return changes.against(gpu, layouts_for(visit, gpu), BY)


def _context(visit: Visit) -> Context:
    gpu = reading.named(visit)
    kinds = kinds_of(gpu)
    plan = plan_of(visit, gpu, kinds)
    now = drawing.of_gpu(visit, gpu)
    found = _planned(visit, gpu, plan) if plan.is_made and not plan.counts.problems else None
    asked: Asked | None = visit.data.get(_TRIAL)
    return {
        "title": visit.texts("gpus.plan_title", gpu=gpu.title),
        "gpu": gpu,
        "back": link("gpus", gpu.name),
        "is_state": state_of(visit.caches, gpu.device),
        "kinds": KINDS,
        "words": state(gpu),
        "mode": mode(gpu),
        "now": gpu_picture(now, ids="now", say=visit.texts) if now else "",
        "carried": counts(gpu.device.status.configured),
        "room": alternatives(gpu.device.status.fits),
        "profiles": kinds,
        "plan": plan,
        "size_lock": _size_lock(gpu),
        "modes": mode_options(visit),
        "asked": asked,
        "against": _refusals(visit, gpu, found, asked),
        "steps": _steps(found, asked),
        "fits": _fits(found, asked),
        "is_unconfirmed": bool(plan.counts.vgpus) and not gpu.vgpus,
        "picture": _picture(visit, gpu, plan, now, found),
        "summary": counts(plan.counts.vgpus),
        "blocked": _blocked(visit, gpu, plan, found, asked),
        "concerns": detail.concerns(visit, gpu),
    }


def _planned(visit: Visit, gpu: Gpu, plan: Plan) -> Planned | None:
    held = holders.by_function(visit, gpu.vgpus)
    return planned(gpu, plan.counts.vgpus, plan.mode, held)


def _refusals(visit: Visit, gpu: Gpu, found: Planned | None, asked: Asked | None) -> Sequence[str]:
    """Everything that speaks against it; the agent's answer counts where there is one."""
    if reasons := list(against(visit, gpu)):
        return reasons
    if asked is not None and asked.trial is not None:
        return asked.trial.refusals
    return found.refusals if found is not None else ()


def _steps(found: Planned | None, asked: Asked | None) -> Sequence[str]:
    if asked is not None and asked.trial is not None:
        return asked.trial.steps
    return found.steps if found is not None else ()


def _fits(found: Planned | None, asked: Asked | None) -> list[str]:
    """What would still fit afterwards."""
    trial: Trial | None = asked.trial if asked is not None else None
    return alternatives((trial.fits_afterwards if trial else {}) or (found.fits if found else {}))


def _size_lock(gpu: Gpu) -> str:
    """The size that all vGPUs of the GPU have, in short, where they must have one."""
    if gpu.device.status.mode != Mode.SAME_SIZE:
        return ""
    sizes = {framebuffer_mib(name) for name in gpu.device.status.configured}
    return gib(sizes.pop()) if len(sizes) == 1 and all(sizes) else ""


def _picture(
    visit: Visit, gpu: Gpu, plan: Plan, now: GpuDrawing | None, found: Planned | None
) -> str:
    """The memory as it is and as it would be; empty where either is not known."""
    if now is None or found is None:
        return ""
    then = drawing.after(visit, gpu, plan.counts.vgpus, plan.mode, found)
    return gpu_change(now, then, ids="plan", say=visit.texts) if then else ""


# ----------------------------------------------------------------------------------------- apply


def _blocked(visit: Visit, gpu: Gpu, plan: Plan, found: Planned | None, asked: Asked | None) -> str:
    """Why the plan cannot be applied; empty where it can."""
    texts = visit.texts
    if not plan.is_made:
        return texts("gpus.nothing_planned")
    if plan.counts.problems:
        return texts("gpus.fields_wrong")
    needed = trials.PATCH if own_layout(visit, gpu) is not None else trials.CREATE
    if not visit.may(needed):
        return texts("gpus.no_layout_right", verb=needed.verb)
    refusals = _refusals(visit, gpu, found, asked)
    if refusals and not _may_wait(visit, gpu, plan, asked):
        return texts("gpus.refused_above")
    return ""


def _may_wait(visit: Visit, gpu: Gpu, plan: Plan, asked: Asked | None) -> bool:
    """Whether the plan may be stored although it is refused now."""
    if not plan.when_possible or list(against(visit, gpu)):
        return False
    return asked is not None and asked.trial is not None and asked.trial.passing


async def _apply(visit: Visit) -> Done | Again:
    gpu = reading.named(visit)
    plan = plan_of(visit, gpu, kinds_of(gpu))
    if not plan.is_made or plan.counts.problems:
        return Again({"": [visit.texts("gpus.fields_wrong")]})
    if reasons := list(against(visit, gpu)):
        return Again({"": reasons})
    own = own_layout(visit, gpu)
    asked = await trials.ask(visit, gpu, changes.trial_spec(gpu, plan.desired, own))
    visit.data[_TRIAL] = asked
    if asked.trial is None and not asked.is_forbidden and not plan.when_possible:
        return Again({"": [visit.texts("gpus.no_answer", why=asked.why)]})
    if asked.refusals and not _may_wait(visit, gpu, plan, asked):
        return Again({"": asked.refusals})
    await changes.write(visit.client, gpu, plan.desired, own)
    stored = counts(plan.counts.vgpus) or visit.texts("gpus.none_of_them")
    return Done(link("gpus", gpu.name), visit.texts("gpus.stored", vgpus=stored))


PAGES = (
    Page(
        "/gpus/{name}/vgpus",
        "gpus-plan.html",
        _context,
        kinds=detail.KINDS_READ,
        needs=(LIST,),
        asks=trials.ASKED,
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/gpus/{name}/vgpus", _apply),)
