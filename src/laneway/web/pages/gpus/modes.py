"""Enable or disable a GPU and choose its mode: what each means, and what speaks against each.

Every choice has the reasons that objects show. The one that is chosen is also tried on the node,
and stored in the SRIOVGPUDevice when the user applies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.changes import gpus as changes
from laneway.changes.gpus import Desired
from laneway.core.gpu.modes import Mode
from laneway.views.gpus import Gpu
from laneway.views.planned import planned
from laneway.views.state import mode, state
from laneway.web import holders
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.gpus import detail, reading, trials
from laneway.web.pages.gpus.listing import LIST
from laneway.web.pages.gpus.states import KINDS, state_of
from laneway.web.pages.gpus.trials import Asked
from laneway.web.place import link
from laneway.web.visit import Visit

CHOICES = {
    mode_.value: Desired(enabled=mode_.has_vfs, mode=mode_)
    for mode_ in (Mode.SAME_SIZE, Mode.MIXED_SIZE, Mode.MIG_BACKED, Mode.MIG, Mode.PASSTHROUGH)
}
"""What a GPU can be, by the name of the mode."""
_TRIAL = "trial"


class Choice(NamedTuple):
    """One mode, as it is shown."""

    value: str
    enabled: bool
    is_present: bool
    """Whether the GPU is in it, and is to be."""
    is_chosen: bool
    reasons: Sequence[str]
    """What speaks against it, as far as the objects show."""


def is_present(gpu: Gpu, desired: Desired) -> bool:
    """Whether a GPU is like that already, and is to be."""
    spec = gpu.device.spec
    is_asked = spec.enabled == desired.enabled and spec.mode in ("", desired.mode)
    return is_asked and gpu.device.status.mode == desired.mode


def against(visit: Visit, gpu: Gpu, desired: Desired, *, waits: bool = False) -> Sequence[str]:
    """What speaks against a mode. `waits`: without what can go away by itself."""
    if is_present(gpu, desired):
        return ()
    if away := changes.unreachable(gpu):
        return (away,)
    found = list(changes.against(gpu, desired, waits=waits))
    if not waits:
        spec = changes.trial_spec(gpu, desired)
        counts = {one["profile"]: one["count"] for one in spec["vgpus"]}
        forecast = planned(gpu, counts, str(desired.mode), holders.by_function(visit, gpu.vgpus))
        found += forecast.refusals if forecast is not None else ()
    return list(dict.fromkeys(found))


def _chosen(visit: Visit) -> tuple[str, Desired | None]:
    value = visit.place.get("to")
    return (value, CHOICES[value]) if value in CHOICES else ("", None)


def _waits(visit: Visit) -> bool:
    return bool(visit.place.get("whenPossible"))


async def _prepare(visit: Visit) -> None:
    gpu = reading.named(visit)
    await holders.load(visit, gpu.vgpus)
    _, desired = _chosen(visit)
    if desired is None or is_present(gpu, desired) or _TRIAL in visit.data:
        return
    if not against(visit, gpu, desired, waits=_waits(visit)):
        visit.data[_TRIAL] = await trials.ask(visit, gpu, changes.trial_spec(gpu, desired))


def _context(visit: Visit) -> Context:
    gpu = reading.named(visit)
    value, desired = _chosen(visit)
    asked: Asked | None = visit.data.get(_TRIAL)
    choices = [
        Choice(name, one.enabled, is_present(gpu, one), name == value, against(visit, gpu, one))
        for name, one in CHOICES.items()
    ]
    return {
        "title": visit.texts("gpus.mode_title", gpu=gpu.title),
        "gpu": gpu,
        "back": link("gpus", gpu.name),
        "is_state": state_of(visit.caches, gpu.device),
        "kinds": KINDS,
        "words": state(gpu),
        "mode": mode(gpu),
        "choices": choices,
        "value": value,
        "waits": _waits(visit),
        "against": _refusals(visit, gpu, desired, asked) if desired else (),
        "is_there": desired is not None and is_present(gpu, desired),
        "asked": asked,
        "steps": asked.trial.steps if asked is not None and asked.trial is not None else (),
        "has_layout": reading.own_layout(visit, gpu) is not None,
        "differences": list(changes.differences(gpu, desired)) if desired else [],
        "blocked": _blocked(visit, gpu, desired, asked),
        "concerns": detail.concerns(visit, gpu),
    }


def _refusals(visit: Visit, gpu: Gpu, desired: Desired, asked: Asked | None) -> Sequence[str]:
    reasons = against(visit, gpu, desired, waits=_waits(visit))
    return reasons or (asked.refusals if asked is not None else ())


def _blocked(visit: Visit, gpu: Gpu, desired: Desired | None, asked: Asked | None) -> str:
    """Why the choice cannot be applied; empty where it can."""
    texts = visit.texts
    if desired is None:
        return texts("gpus.no_mode_chosen")
    if is_present(gpu, desired):
        return texts("gpus.no_steps")
    if not visit.may(detail.PATCH_GPU):
        return texts("gpus.may_not_patch")
    refusals = _refusals(visit, gpu, desired, asked)
    return texts("gpus.refused_above") if refusals and not _may_wait(visit, asked) else ""


def _may_wait(visit: Visit, asked: Asked | None) -> bool:
    """Whether a refusal may go away by itself, and the user says to wait for that."""
    return _waits(visit) and asked is not None and asked.trial is not None and asked.trial.passing


async def _apply(visit: Visit) -> Done | Again:
    gpu = reading.named(visit)
    _, desired = _chosen(visit)
    if desired is None:
        return Again({"": [visit.texts("gpus.no_mode_chosen")]})
    problems = await applied(visit, gpu, desired, waits=_waits(visit))
    if problems:
        return Again({"": problems})
    return Done(link("gpus", gpu.name), visit.texts("gpus.mode_stored", mode=desired.mode))


async def applied(
    visit: Visit, gpu: Gpu, desired: Desired, *, waits: bool = False
) -> Sequence[str]:
    """Store a mode; gives what is against it. Raises KubeError and ChangeError."""
    await holders.load(visit, gpu.vgpus)
    if reasons := against(visit, gpu, desired, waits=waits):
        return reasons
    # The server's own dry run, so that what it would refuse is refused before an agent is asked.
    await changes.write(visit.client, gpu, desired, dry_run=True)
    asked = await trials.ask(visit, gpu, changes.trial_spec(gpu, desired))
    visit.data[_TRIAL] = asked
    if asked.refusals and not (waits and asked.trial is not None and asked.trial.passing):
        return asked.refusals
    if asked.trial is None and not asked.is_forbidden and not waits:
        return [visit.texts("gpus.no_answer", why=asked.why)]
    await changes.write(visit.client, gpu, desired)
    return ()


PAGES = (
    Page(
        "/gpus/{name}/mode",
        "gpus-mode.html",
        _context,
        kinds=detail.KINDS_READ,
        needs=(LIST,),
        asks=(detail.PATCH_GPU, *trials.ASKED),
        prepare=_prepare,
    ),
)
ACTIONS = (Action("/gpus/{name}/mode", _apply),)
