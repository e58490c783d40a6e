"""Where GPU instances would still fit, to choose from: below the picture and to the same scale.

Each place is a link, so it can be chosen by keyboard and without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec
from markupsafe import Markup

from laneway.core.mig.positions import EIGHTHS, Position
from laneway.core.mig.profiles import compute_slices
from laneway.views.memory import gib
from laneway.web.pictures.drawing import Say
from laneway.web.pictures.marks import clean


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A place to choose, and the page that the choice leads to."""

    place: Position
    href: str


def places(choices: Iterable[Choice], *, mib: int, ids: str, say: Say) -> Markup:
    """Every place, a line for each profile. `mib`: the memory of the GPU."""
    lines = [
        _line(name, list(found), mib, f"{ids}-{number}", say)
        for number, (name, found) in enumerate(groupby(choices, key=lambda one: one.place.profile))
    ]
    if not lines:
        return Markup('<p class="pic-note">{}</p>').format(say("pictures.no_place"))
    return Markup('<ul class="pic places" role="list">{}</ul>').format(Markup("").join(lines))


def _line(name: str, found: Sequence[Choice], mib: int, ids: str, say: Say) -> Markup:
    size = found[0].place.size * mib // EIGHTHS
    about = say("pictures.profile", size=gib(size), compute=compute_slices(name))
    boxes = Markup("").join(_choice(one, mib, say) for one in found)
    return Markup(
        '<li><p class="pic-title" id="{0}"><b>{1}</b> <span>{2}</span></p>'
        '<div class="places-line" role="group" aria-labelledby="{0}">{3}</div></li>'
    ).format(ids, clean(name), about, boxes)


def _choice(one: Choice, mib: int, say: Say) -> Markup:
    start = gib(one.place.start * mib // EIGHTHS)
    return Markup(
        '<a class="place place-at-{} place-of-{}" href="{}"><span aria-hidden="true">+</span>'
        '<span class="visually-hidden">{}</span></a>'
    ).format(
        one.place.start,
        one.place.size,
        one.href,
        say("pictures.choose", name=clean(one.place.profile), start=start),
    )
