"""Where GPU instances would still fit, to choose from: below the picture and to the same scale.

Each place is a link or a button of a form, so it can be chosen by keyboard and without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec
from markupsafe import Markup

from laneway.core.mig.positions import EIGHTHS, Position
from laneway.core.mig.profiles import compute_slices
from laneway.web.pictures.drawing import Say
from laneway.web.pictures.marks import clean, gib


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A place to choose: a link with `href`, else a button of the form with the id `form`."""

    place: Position
    href: str = ""
    form: str = ""
    name: str = ""
    value: str = ""
    chosen: bool = False


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
    kind = "pic-chosen" if one.chosen else ""
    where = f"place place-at-{one.place.start} place-of-{one.place.size} {kind}".rstrip()
    words = Markup(
        '<span aria-hidden="true">{}</span><span class="visually-hidden">{}</span>'
    ).format(
        "✓" if one.chosen else "+",
        say("pictures.choose", name=clean(one.place.profile), start=start),
    )
    if one.href:
        current = Markup(' aria-current="true"') if one.chosen else ""
        return Markup('<a class="{}" href="{}"{}>{}</a>').format(where, one.href, current, words)
    return Markup(
        '<button class="{}" type="submit" form="{}" name="{}" value="{}" aria-pressed="{}">'
        "{}</button>"
    ).format(where, one.form, one.name, one.value, "true" if one.chosen else "false", words)
