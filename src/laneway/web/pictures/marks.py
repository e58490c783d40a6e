"""What all pictures are made of: percentages, texts that fit, patterns.

Pictures scale in width only. Positions are percentages of the width and texts keep the size that
the reader has chosen, so a picture is as legible on a phone or at 400 % zoom as on a wide screen.
Whether a text fits into its box then depends on the width of the picture, which only the browser
knows: a text carries the class of the width from which it fits, and the stylesheet compares.
"""

from __future__ import annotations

import unicodedata

from markupsafe import Markup

from laneway.core.phrases import line

_WIDTHS = (16, 20, 24, 30, 36, 44, 54, 66, 80, 100)
"""Widths of a picture, in rem, that the stylesheet compares with."""
_CHARACTER = 0.46
"""Width of a character, in rem, generously."""
_DIGIT = 0.44
"""Width of a digit in bold."""
_PADDING = 0.5
_LONGEST = 120
"""Characters of a text in a picture; beyond that it is cut."""

PATTERNS = Markup(
    '<defs><pattern id="{ids}-free" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path class="pic-hatch" d="M0 0V6"/></pattern>'
    '<pattern id="{ids}-bad" width="8" height="8" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(-45)"><path class="pic-cross" d="M0 0V8M0 0H8"/></pattern></defs>'
)
"""Of free areas and of broken ones. Each picture has its own, under the ids of the caller."""


def percent(part: float, whole: float) -> str:
    """A position or width: `12.5%`."""
    return f"{100 * part / whole:.5g}%" if whole else "0%"


def clean(text: str, longest: int = _LONGEST) -> str:
    """What others wrote: on one line, without characters that reorder a line, and not too long."""
    found = line(text)
    return found if len(found) <= longest else f"{found[: longest - 1]}…"


def fits_from(text: str, share: float) -> str:
    """The class of a text that has a share of the picture's width; empty: it never fits."""
    if text.isdecimal():
        wide = len(text) * _DIGIT + _PADDING / 2
    else:
        each = (2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
        wide = sum(each) * _CHARACTER + _PADDING
    needed = wide / share if share > 0 else float("inf")
    return next((f"pic-from-{width}" for width in _WIDTHS if width >= needed), "")


def text(words: str, *, x: str, y: int, share: float, kind: str) -> Markup:
    """A text in the middle of a box, shown where it fits."""
    fits = fits_from(words, share)
    if not fits:
        return Markup("")
    return Markup('<text x="{}" y="{}" class="{} {}">{}</text>').format(x, y, kind, fits, words)
