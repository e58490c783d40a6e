"""The steps of a plan as a list: what is done, what runs, what failed, what is still to do."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from markupsafe import Markup

from laneway.web.pictures.drawing import Say
from laneway.web.pictures.icons import Icon, icon
from laneway.web.pictures.marks import clean

_LONGEST = 1000


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step in words."""

    text: str
    state: Icon = Icon.OFF
    """OK: done. WORKING: runs now. ERROR: failed. OFF: still to do."""
    detail: str = ""
    """What it says about itself, such as why it failed."""


def step_list(steps: Iterable[Step], *, say: Say) -> Markup:
    """The steps in their order, with how many are done."""
    every = list(steps)
    done = sum(step.state is Icon.OK for step in every)
    items = Markup("").join(_step(step, say) for step in every)
    return Markup(
        '<div class="pic"><p class="pic-title">{}</p><ol class="steps">{}</ol></div>'
    ).format(say("pictures.steps_done", done=done, whole=len(every)), items)


def _step(step: Step, say: Say) -> Markup:
    current = Markup(' aria-current="step"') if step.state is Icon.WORKING else ""
    detail = (
        Markup('<span class="step-detail">{}</span>').format(clean(step.detail, _LONGEST))
        if step.detail
        else ""
    )
    return Markup('<li class="step step-{}"{}>{}<span>{}{}</span></li>').format(
        step.state.value,
        current,
        icon(step.state, say(f"pictures.step_{step.state.value}")),
        clean(step.text, _LONGEST),
        detail,
    )
