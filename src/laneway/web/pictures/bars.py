"""Capacity as stacked bars: what of the devices of a type is held, reserved, wanted, free.

Every part has a pattern and a letter of its own. The numbers are below each bar as text, and in the
description of the image as words.
"""

from __future__ import annotations

from collections.abc import Sequence
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
