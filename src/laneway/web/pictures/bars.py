"""Capacity as stacked bars: what of the devices of a type is held, reserved, wanted, free.

Every part has a pattern and a letter of its own. The numbers are below each bar as text, in the
description of the image as words, and all together as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from laneway.core.ledger.ledger import Counts
from laneway.web.pictures.drawing import Named, Say
from laneway.web.pictures.legend import named
from laneway.web.pictures.marks import clean, percent, text

_HEIGHT = 24
_NARROWEST = 0.015


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one type, on one node or on several."""

    name: Named
    counts: Counts
    creatable: int = 0
    """How many more could be created."""


class _Piece(NamedTuple):
    kind: str
    number: int


class _Drawn(NamedTuple):
    """A piece with its beginning and width, as shares of the whole."""

    kind: str
    number: int
    at: float
    share: float


_PATTERNS = Markup(
    '<defs><pattern id="{ids}-reserved" width="7" height="7" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path class="bar-stripe" d="M0 0V7"/></pattern>'
    '<pattern id="{ids}-wanted" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<circle class="bar-dot" cx="2" cy="2" r="1.2"/></pattern>'
    '<pattern id="{ids}-unhealthy" width="8" height="8" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path class="pic-cross" d="M0 0V8M0 0H8"/></pattern></defs>'
)
_PATTERNED = ("reserved", "wanted", "unhealthy")


def capacity_bar(bar: Bar, *, ids: str, say: Say) -> Markup:
    """The name, the bar, and the numbers that are not zero. `ids` begins every id in it."""
    pieces = [piece for piece in _pieces(bar) if piece.number > 0]
    numbers = [
        Markup('<li><b aria-hidden="true">{}</b> {} <b>{:,}</b></li>').format(
            say(f"pictures.letter_{kind}"), say(f"pictures.bar_{kind}"), count
        )
        for kind, count in pieces
    ]
    listed = Markup('<ul class="bar-numbers" role="list">{}</ul>').format(Markup("").join(numbers))
    return Markup(
        '<div class="pic bar"><p class="bar-name">{} <span class="bar-total">{}</span></p>'
        "{}{}</div>"
    ).format(
        named(bar.name),
        say("pictures.bar_total", count=f"{bar.counts.total:,}"),
        _drawn(bar, pieces, ids, say),
        listed if numbers else "",
    )


def capacity_picture(bar: Bar, *, ids: str, say: Say) -> Markup:
    """The bar alone, where name and numbers are next to it."""
    pieces = [piece for piece in _pieces(bar) if piece.number > 0]
    return Markup('<div class="pic bar">{}</div>').format(_drawn(bar, pieces, ids, say))


def capacity_bars(bars: Sequence[Bar], *, ids: str, say: Say) -> Markup:
    """Several bars, one below the other."""
    drawn = (
        Markup("<li>{}</li>").format(capacity_bar(bar, ids=f"{ids}-{number}", say=say))
        for number, bar in enumerate(bars)
    )
    return Markup('<ul class="bars" role="list">{}</ul>').format(Markup("").join(drawn))


def capacity_table(bars: Iterable[Bar], *, caption: str, say: Say) -> Markup:
    """The same as a table of numbers."""
    kinds = [piece.kind for piece in _pieces(Bar(name=Named(""), counts=Counts()))]
    heads = Markup("").join(
        Markup('<th class="pf-v6-c-table__th" scope="col">{}</th>').format(
            say(f"pictures.bar_{kind}")
        )
        for kind in ("type", "all", *kinds)
    )
    rows = Markup("").join(_row(bar) for bar in bars)
    return Markup(
        '<div class="bar-scroll" role="region" tabindex="0" aria-label="{0}">'
        '<table class="pf-v6-c-table pf-m-compact bar-table"><caption class="visually-hidden">{0}'
        '</caption><thead class="pf-v6-c-table__thead"><tr class="pf-v6-c-table__tr">{1}</tr>'
        '</thead><tbody class="pf-v6-c-table__tbody">{2}</tbody></table></div>'
    ).format(clean(caption), heads, rows)


def _row(bar: Bar) -> Markup:
    numbers = (bar.counts.total, *(piece.number for piece in _pieces(bar)))
    cells = Markup("").join(
        Markup('<td class="pf-v6-c-table__td">{:,}</td>').format(number) for number in numbers
    )
    return Markup(
        '<tr class="pf-v6-c-table__tr"><th class="pf-v6-c-table__th" scope="row">{}</th>{}</tr>'
    ).format(named(bar.name), cells)


def _pieces(bar: Bar) -> tuple[_Piece, ...]:
    counts = bar.counts
    return (
        _Piece("held", counts.held),
        _Piece("reserved", counts.reserved),
        _Piece("wanted", counts.wanted),
        _Piece("unhealthy", counts.unhealthy),
        _Piece("free", counts.free),
        _Piece("creatable", bar.creatable),
    )


def _drawn(bar: Bar, pieces: Sequence[_Piece], ids: str, say: Say) -> Markup:
    name = clean(bar.name.text)
    words = [
        say("pictures.bar_part", state=say(f"pictures.bar_{kind}"), count=f"{count:,}")
        for kind, count in pieces
    ]
    at, drawn = 0.0, []
    for (kind, count), share in zip(pieces, _shares(pieces), strict=True):
        drawn.append(_piece(_Drawn(kind, count, at, share), ids, say))
        at += share
    if not drawn:
        drawn.append(Markup('<rect class="bar-none" width="100%" height="{}"/>').format(_HEIGHT))
    return Markup(
        '<svg class="bar-drawn" width="100%" height="{height}" role="img" focusable="false"'
        ' aria-labelledby="{ids}-title {ids}-desc"><title id="{ids}-title">{title}</title>'
        '<desc id="{ids}-desc">{desc}</desc>{patterns}{drawn}</svg>'
    ).format(
        height=_HEIGHT,
        ids=ids,
        title=say("pictures.bar_title", name=name, count=f"{bar.counts.total:,}"),
        desc=" ".join(words) or say("pictures.bar_nothing"),
        patterns=_PATTERNS.format(ids=ids),
        drawn=Markup("").join(drawn),
    )


def _shares(pieces: Sequence[_Piece]) -> list[float]:
    """Of the width: as the counts are, but enough of each to be seen."""
    whole = sum(count for _, count in pieces)
    wide = [max(_NARROWEST, count / whole) for _, count in pieces]
    return [share / sum(wide) for share in wide]


def _piece(one: _Drawn, ids: str, say: Say) -> Markup:
    x, width = percent(one.at, 1), percent(one.share, 1)
    box = Markup('<rect class="bar-box" x="{}" width="{}" height="{}"/>').format(x, width, _HEIGHT)
    if one.kind in _PATTERNED:
        box += Markup('<rect x="{}" width="{}" height="{}" fill="url(#{}-{})"/>').format(
            x, width, _HEIGHT, ids, one.kind
        )
    words = f"{say(f'pictures.letter_{one.kind}')} {one.number:,}"
    middle = percent(one.at + one.share / 2, 1)
    return Markup('<g class="bar-{}">{}{}</g>').format(
        one.kind, box, text(words, x=middle, y=16, share=one.share, kind="pic-number")
    )
