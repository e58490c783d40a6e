"""What belongs to the picture of a GPU as HTML: the key, the virtual functions, the list of parts.

Everything that the picture shows is here in words, with links.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup, escape

from laneway.views.memory import gib
from laneway.web.pictures.drawing import (
    Change,
    Function,
    GpuDrawing,
    Named,
    Part,
    Say,
    State,
    Vgpu,
)
from laneway.web.pictures.icons import Icon, icon
from laneway.web.pictures.marks import clean

_LONGEST = 253
"""Characters of a name, as of Kubernetes' objects."""
_LONGEST_WHY = 1000


def named(one: Named) -> Markup:
    """A name, as a link where it leads to a page."""
    text = clean(one.text, _LONGEST)
    if not one.href:
        return escape(text)
    return Markup('<a href="{}">{}</a>').format(one.href, text)


# ------------------------------------------------------------------------------------------- key


def key(drawing: GpuDrawing, *, ids: str, say: Say) -> Markup:
    """What the patterns mean, as far as they occur."""
    found = [kind for kind, occurs in _kinds(drawing).items() if occurs]
    items = [
        Markup("<li>{}{}</li>").format(_swatch(kind, ids), say(f"pictures.key_{kind}"))
        for kind in found
    ]
    listed = Markup("")
    if items:
        listed += Markup('<ul class="pic-key" role="list">{}</ul>').format(Markup("").join(items))
    if drawing.occupied and not drawing.placed:
        listed += Markup('<p class="pic-note">{}</p>').format(say("pictures.not_placed"))
    return listed


def _kinds(drawing: GpuDrawing) -> dict[str, bool]:
    parts = drawing.occupied
    states = {vgpu.state for part in parts for vgpu in part.vgpus}
    changes = {part.change for part in parts}
    return {
        "held": State.HELD in states,
        "idle": State.IDLE in states,
        "bad": any(state.is_broken for state in states),
        "free": any(not part.name for part in drawing.parts),
        "new": Change.NEW in changes,
        "moved": Change.MOVED in changes,
        "removed": Change.REMOVED in changes,
    }


def _swatch(kind: str, ids: str) -> Markup:
    box = "idle" if kind in ("new", "moved", "removed") else kind
    changed = f" pic-{kind}" if kind in ("new", "moved", "removed") else ""
    pattern = (
        Markup('<rect x="1" y="1" width="22" height="14" fill="url(#{}-{})"/>').format(ids, kind)
        if kind in ("free", "bad")
        else ""
    )
    return Markup(
        '<svg class="pic-swatch" width="24" height="16" aria-hidden="true" focusable="false">'
        '<g class="pic-{}{}"><rect class="pic-box" x="1" y="1" width="22" height="14"/>{}</g></svg>'
    ).format(box, changed, pattern)


# ----------------------------------------------------------------------------- virtual functions


def functions(drawing: GpuDrawing, *, say: Say) -> Markup:
    """The virtual functions as small boxes; empty for a GPU that has none."""
    if not drawing.functions:
        return Markup("")
    broken = sum(one.state.is_broken for one in drawing.functions)
    empty = sum(one.state is State.EMPTY for one in drawing.functions)
    words = say(
        "pictures.functions",
        count=len(drawing.functions),
        used=len(drawing.functions) - broken - empty,
        empty=empty,
    )
    if broken:
        words = f"{words} {say('pictures.functions_broken', count=broken)}"
    boxes = Markup("").join(_function(one, say) for one in drawing.functions)
    return Markup('<p class="pic-title">{}</p><ul class="pic-vfs" role="list">{}</ul>').format(
        words, boxes
    )


def _function(one: Function, say: Say) -> Markup:
    address = clean(one.name.text)
    state = say(f"pictures.state_{one.state.value}")
    words = ", ".join(word for word in (address, clean(one.profile), state) if word)
    sign = "!" if one.state.is_broken else str(one.part or "")
    kind = "bad" if one.state.is_broken else one.state.value
    box = Markup(
        '<span aria-hidden="true">{}</span><span class="visually-hidden">{}</span>'
    ).format(sign, words)
    if one.name.href:
        return Markup('<li><a class="pic-vf pic-vf-{}" href="{}" title="{}">{}</a></li>').format(
            kind, one.name.href, words, box
        )
    return Markup('<li><span class="pic-vf pic-vf-{}" title="{}">{}</span></li>').format(
        kind, words, box
    )


# ------------------------------------------------------------------------------------- the parts


def legend(drawing: GpuDrawing, *, ids: str, say: Say) -> Markup:
    """Every part with its number, and what is desired and has no place yet."""
    listed = Markup("").join(
        Markup('<li id="{}-{}">{}</li>').format(ids, number, _part(part, drawing.placed, say))
        for number, part in enumerate(drawing.occupied, 1)
    )
    missing = Markup("").join(
        Markup("<li>{}</li>").format(_vgpu(one, say, with_size=True)) for one in drawing.missing
    )
    found = Markup("")
    if listed:
        found += Markup('<ol class="pic-legend">{}</ol>').format(listed)
    if missing:
        found += Markup('<ul class="pic-legend pic-missing" role="list">{}</ul>').format(missing)
    return found


def _part(part: Part, placed: bool, say: Say) -> Markup:
    start, size = gib(part.start), gib(part.mib)
    where = say("pictures.place", size=size, start=start) if placed else size
    head = Markup("<b>{}</b>, {}").format(clean(part.name, _LONGEST), where)
    if part.id is not None:
        head += Markup(", {}").format(say("pictures.instance", id=part.id))
    if part.change:
        head += Markup(' <span class="pic-label pic-label-{}">{}</span>').format(
            part.change.value, say(f"pictures.key_{part.change.value}")
        )
    if not part.is_instance:
        return head + Markup("").join(_facts(one, say) for one in part.vgpus)
    inside = Markup("").join(
        Markup("<li>{}</li>").format(_vgpu(one, say, with_size=True)) for one in part.vgpus
    )
    return head + (Markup('<ul role="list">{}</ul>').format(inside) if inside else "")


def _vgpu(one: Vgpu, say: Say, *, with_size: bool) -> Markup:
    head = Markup("<b>{}</b>").format(clean(one.profile, _LONGEST))
    if with_size and one.mib:
        head += Markup(", {}").format(gib(one.mib))
    return head + _facts(one, say)


def _facts(one: Vgpu, say: Say) -> Markup:
    """Function, holder, and what is broken."""
    return Markup("").join(
        Markup('<span class="pic-fact">{}</span>').format(x) for x in _each(one, say)
    )


def _each(one: Vgpu, say: Say) -> Iterator[Markup]:
    if one.name.text:
        yield named(one.name)
    if one.holder is not None:
        yield Markup("{} {}").format(say("pictures.held_by"), named(one.holder))
    elif one.state is State.IDLE and one.name.text:
        yield escape(say("pictures.no_holder"))
    if one.state.is_broken:
        kind = Icon.ERROR if one.state is not State.MISSING else Icon.WARNING
        words = say(f"pictures.state_{one.state.value}")
        yield Markup('<span class="pic-bad-text">{} {}</span>').format(
            icon(kind), f"{words}: {clean(one.why, _LONGEST_WHY)}" if one.why else words
        )
