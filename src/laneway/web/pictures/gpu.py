"""The picture of a GPU: its memory to scale, what occupies it, and its virtual functions.

The memory is one SVG, an image with a name and a description. What a user can follow from it
(the vGPU, its holder) is in the list of its parts, which is HTML: an image has nothing to focus.

A page is drawn again whenever something on it changes, for each of its readers. Most of its GPUs
are as before then, so the latest pictures are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from laneway.views.memory import gib
from laneway.web.pictures.drawing import (
    Change,
    GpuDrawing,
    Part,
    Say,
    State,
    compared,
    numbers,
)
from laneway.web.pictures.legend import functions, key, legend
from laneway.web.pictures.marks import PATTERNS, clean, fits_from, percent, text

_KEPT = 256
_BRACKETS = 22
_BADGES = 10
_BOX = 64
_AXIS = 20
_COMPUTE = 50
_SEVERAL = 2
_BADGE = {Change.NEW: "+", Change.REMOVED: "\N{MINUS SIGN}", Change.MOVED: "→"}
_NAMED_FROM = {f"pic-from-{width}" for width in (16, 20, 24, 30, 36, 44, 54)}
"""Where names fit into a picture as wide as most screens show it."""


class _Run(NamedTuple):
    """Parts of one profile next to each other."""

    first: int
    last: int
    parts: tuple[Part, ...]


@lru_cache(maxsize=_KEPT)
def gpu_picture(drawing: GpuDrawing, *, ids: str, say: Say) -> Markup:
    """The whole picture: memory, key, virtual functions and the list of parts.

    `ids` begins every id in it and is unique on its page.
    """
    allocated, whole = gib(drawing.allocated_mib), gib(drawing.mib)
    return Markup('<div class="pic"><p class="pic-title">{}</p>{}{}{}{}</div>').format(
        say("pictures.allocated", allocated=allocated, whole=whole),
        memory(drawing, ids=ids, say=say),
        key(drawing, ids=ids, say=say),
        functions(drawing, say=say),
        legend(drawing, ids=ids, say=say),
    )


def gpu_change(before: GpuDrawing, after: GpuDrawing, *, ids: str, say: Say) -> Markup:
    """The GPU now, and as a plan would leave it, with what differs marked in both."""
    pictures = []
    old, new = compared(before, after)
    for drawing, name in ((old, "now"), (new, "after")):
        pictures.append(
            Markup('<figure class="pic pic-{}"><figcaption>{}</figcaption>{}{}{}</figure>').format(
                name,
                say(f"pictures.{name}"),
                memory(drawing, ids=f"{ids}-{name}", say=say),
                key(drawing, ids=f"{ids}-{name}", say=say),
                legend(drawing, ids=f"{ids}-{name}", say=say),
            )
        )
    return Markup('<div class="pic-change">{}</div>').format(Markup("").join(pictures))


@lru_cache(maxsize=_KEPT)
def memory(drawing: GpuDrawing, *, ids: str, say: Say) -> Markup:
    """The memory of a GPU, to scale; of a GPU in MIG mode also its compute slices."""
    runs = [run for run in _runs(drawing.parts) if _is_narrow(run, drawing.mib)]
    top = (_BRACKETS if runs else 0) + _BADGES
    height = top + _BOX + _AXIS + (_COMPUTE if drawing.compute else 0)
    drawn = [
        *(_bracket(run, drawing.mib, say) for run in runs),
        *(
            _part(part, number, drawing.mib, ids=ids, top=top, say=say)
            for part, number in _numbered(drawing)
        ),
        *_axis(drawing.mib, top + _BOX),
    ]
    if drawing.compute:
        drawn.extend(_compute(drawing, ids, top + _BOX + _AXIS, say))
    return Markup(
        '<svg class="pic-memory" width="100%" height="{height}" role="img" focusable="false"'
        ' aria-labelledby="{ids}-title {ids}-desc"><title id="{ids}-title">{title}</title>'
        '<desc id="{ids}-desc">{desc}</desc>{patterns}{drawn}</svg>'
    ).format(
        height=height,
        ids=ids,
        title=_title(drawing, say),
        desc=" ".join(_described(drawing, say)),
        patterns=PATTERNS.format(ids=ids),
        drawn=Markup("").join(drawn),
    )


# ------------------------------------------------------------------------------------ in words


def _title(drawing: GpuDrawing, say: Say) -> str:
    allocated, whole = gib(drawing.allocated_mib), gib(drawing.mib)
    return say("pictures.memory", gpu=clean(drawing.title), allocated=allocated, whole=whole)


def _described(drawing: GpuDrawing, say: Say) -> Iterator[str]:
    for run in _runs(drawing.parts):
        part, several = run.parts[0], len(run.parts) > 1
        name = clean(part.name)
        if several:
            yield say("pictures.run", first=run.first, last=run.last, name=name, size=gib(part.mib))
        else:
            yield say("pictures.one", number=run.first, name=name, size=gib(part.mib))
    free = sum(part.mib for part in drawing.parts if not part.name)
    if free:
        yield say("pictures.free_in_all", size=gib(free))
    broken = sum(part.state.is_broken for part in drawing.occupied) + len(drawing.missing)
    if broken:
        yield say("pictures.broken_in_all", count=broken)


def _tooltip(part: Part, number: int, say: Say) -> str:
    place = say("pictures.place", size=gib(part.mib), start=gib(part.start))
    if not part.name:
        return f"{say('pictures.free')}, {place}"
    holders = [clean(one.holder.text) for one in part.vgpus if one.holder]
    return ", ".join((f"{number}: {clean(part.name)}", place, *holders))


# ---------------------------------------------------------------------------------------- parts


def _numbered(drawing: GpuDrawing) -> Iterable[tuple[Part, int]]:
    return zip(drawing.parts, numbers(drawing.parts), strict=True)


def _part(part: Part, number: int, whole: int, *, ids: str, top: int, say: Say) -> Markup:
    share = part.mib / whole
    middle = percent(part.start + part.mib / 2, whole)
    drawn = [_box(part, whole, top)]
    if not part.name or (part.state.is_broken and not part.is_instance):
        pattern = "bad" if part.name else "free"
        drawn.append(
            Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="url(#{}-{})"/>').format(
                percent(part.start, whole), top, percent(part.mib, whole), _BOX, ids, pattern
            )
        )
    if part.name:
        inside = part.is_instance and part.vgpus
        if inside:
            drawn.extend(_inside(part, whole, top + _BOX - 20))
        lines = (str(number), clean(part.name), "" if inside else gib(part.mib))
    else:
        lines = ("", f"{say('pictures.free')} {gib(part.mib)}", "")
    for words, y, kind in zip(
        lines, (top + 19, top + 36, top + 53), ("pic-number", "pic-name", "pic-size"), strict=True
    ):
        if words:
            drawn.append(text(words, x=middle, y=y, share=share, kind=kind))
    sign = _BADGE.get(part.change, "!" if part.name and part.state.is_broken else "")
    if sign:
        kind = part.change or "bad"
        drawn.append(
            Markup(
                '<circle class="pic-badge pic-badge-{0}" cx="{1}" cy="{2}" r="8"/>'
                '<text class="pic-sign" x="{1}" y="{3}">{4}</text>'
            ).format(kind, middle, top, top + 4, sign)
        )
    return Markup('<g class="{}"><title>{}</title>{}</g>').format(
        _kind(part), _tooltip(part, number, say), Markup("").join(drawn)
    )


def _box(part: Part, whole: int, top: int) -> Markup:
    return Markup('<rect class="pic-box" x="{}" y="{}" width="{}" height="{}"/>').format(
        percent(part.start, whole), top, percent(part.mib, whole), _BOX
    )


def _kind(part: Part) -> str:
    if not part.name:
        return "pic-free"
    state = State.IDLE if part.is_instance else part.state
    kind = "bad" if state.is_broken else state.value
    changed = f" pic-{part.change}" if part.change else ""
    return f"pic-{kind}{changed}"


def _inside(part: Part, whole: int, top: int) -> Iterator[Markup]:
    """The vGPUs in a GPU instance, side by side: they have no places of their own."""
    size = max(part.mib, sum(one.mib for one in part.vgpus))
    at = float(part.start)
    for one in part.vgpus:
        wide = part.mib * (one.mib or size / len(part.vgpus)) / size
        kind = "bad" if one.state.is_broken else one.state.value
        words = f"! {clean(one.profile)}" if one.state.is_broken else clean(one.profile)
        middle, share = percent(at + wide / 2, whole), wide / whole
        yield Markup(
            '<g class="pic-{}"><rect class="pic-box" x="{}" y="{}" width="{}" height="20"/>{}</g>'
        ).format(
            kind,
            percent(at, whole),
            top,
            percent(wide, whole),
            text(words, x=middle, y=top + 14, share=share, kind="pic-size"),
        )
        at += wide


# ------------------------------------------------------------------------------ around the parts


def _runs(parts: Iterable[Part]) -> Iterator[_Run]:
    listed = list(parts)
    numbered = zip(listed, numbers(listed), strict=True)
    for (name, _), found in groupby(numbered, key=lambda one: (one[0].name, one[0].mib)):
        if name:
            run = list(found)
            yield _Run(run[0][1], run[-1][1], tuple(part for part, _ in run))


def _is_narrow(run: _Run, whole: int) -> bool:
    """Whether the names of several parts do not fit into their boxes on most screens."""
    part = run.parts[0]
    fits = fits_from(clean(part.name), part.mib / whole)
    return len(run.parts) >= _SEVERAL and fits not in _NAMED_FROM


def _bracket(run: _Run, whole: int, say: Say) -> Markup:
    """A line over parts that are alike, with their number and name."""
    start = run.parts[0].start
    end = run.parts[-1].start + run.parts[-1].mib
    words = say(
        "pictures.bracket",
        first=run.first,
        last=run.last,
        count=len(run.parts),
        name=clean(run.parts[0].name),
    )
    share = (end - start) / whole
    middle = percent(start + (end - start) / 2, whole)
    return Markup('<line class="pic-line" x1="{0}" x2="{1}" y1="20" y2="20"/>{2}').format(
        percent(start, whole),
        percent(end, whole),
        text(words, x=middle, y=13, share=share, kind="pic-name"),
    )


def _axis(mib: int, top: int) -> Iterator[Markup]:
    """The scale: quarters of the memory."""
    for quarter in range(5):
        x = percent(quarter, 4)
        anchor = {0: "start", 4: "end"}.get(quarter, "middle")
        yield Markup(
            '<line class="pic-line" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
            '<text class="pic-axis" x="{0}" y="{3}" text-anchor="{4}">{5}</text>'
        ).format(x, top, top + 5, top + 17, anchor, gib(mib * quarter // 4))


def _compute(drawing: GpuDrawing, ids: str, top: int, say: Say) -> Iterator[Markup]:
    """Compute slices, in the order of the instances: which of them one has is not reported."""
    used = sum(part.compute for part in drawing.occupied)
    words = say("pictures.compute", used=used, whole=drawing.compute)
    yield Markup('<text class="pic-axis" x="0" y="{}">{}</text>').format(top + 18, words)
    at, whole = 0, max(drawing.compute, used)
    for number, part in enumerate(drawing.occupied, 1):
        if part.compute:
            yield _slices(at, part.compute, whole, top + 26, Markup('class="pic-slice"'))
            middle = percent(at + part.compute / 2, whole)
            share = part.compute / whole
            yield text(str(number), x=middle, y=top + 40, share=share, kind="pic-number")
            at += part.compute
    for slice_ in range(at, whole):
        fill = Markup('class="pic-slice-free" fill="url(#{}-free)"').format(ids)
        yield _slices(slice_, 1, whole, top + 26, fill)


def _slices(at: int, count: int, whole: int, top: int, how: Markup) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="20" {}/>').format(
        percent(at, whole), top, percent(count, whole), how
    )
