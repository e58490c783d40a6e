"""Tables for people and for pipes.

A terminal gets a table that fits: columns that can be missed go first, then cells wrap between
words. Anything else gets plain aligned text with nothing wrapped or cut off, so that `grep` and
`awk` find what they look for.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

import click
import msgspec

from laneway.cli.errors import one_line

EMPTY = "-"
_GAP = 2
_LEAST = 40
"""Columns of a terminal that is too narrow for any table."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    title: str
    wide: bool = False
    """Shown with `-o wide` only."""
    spare: bool = False
    """Left out first where the terminal is too narrow."""


class Row(msgspec.Struct, frozen=True):
    """One device."""

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Whole lines about the device that fit no column."""
    child: bool = False
    """Belongs to the row above."""


class Section(msgspec.Struct, frozen=True):
    """Rows under a title; without a title, rows alone."""

    title: str
    rows: tuple[Row, ...]


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns that are always shown."""
    return tuple(map(Column, titles))


def text(shown: Sequence[Column], sections: Sequence[Section], *, wide: bool = False) -> str:
    """The table as lines, in the form that suits where stdout leads."""
    return _text(shown, sections, _terminal(), wide=wide)


def plain(shown: Sequence[Column], sections: Sequence[Section], *, wide: bool = False) -> str:
    """The table as aligned text. The last column is as long as it needs to be."""
    return _text(shown, sections, None, wide=wide)


def _text(
    shown: Sequence[Column], sections: Sequence[Section], width: int | None, *, wide: bool
) -> str:
    kept = [n for n, column in enumerate(shown) if wide or not column.wide]
    widths = _natural(shown, sections, kept)
    if width is not None:
        while _total(widths, kept) > width and (
            spare := [n for n in kept if shown[n].spare or shown[n].wide]
        ):
            kept.remove(spare[-1])
        _shrink(shown, sections, widths, kept, width)
    titles = [_broken(shown[n].title, widths[n]) for n in kept]
    lines = [
        _line([click.style(part, dim=True) for part in parts], widths, kept)
        for parts in itertools.zip_longest(*titles, fillvalue="")
    ]
    for section in sections:
        if section.title:
            lines += [click.style(part, bold=True) for part in _wrapped(section.title, width, 0)]
        indent = 2 if section.title else 0
        for row in section.rows:
            depth = indent + 2 * row.child
            lines += _row(row, widths, kept, depth)
            for note in row.notes:
                lines += [click.style(part, dim=True) for part in _wrapped(note, width, depth + 2)]
    whole = "".join(f"{line}\n" for line in lines)
    return click.unstyle(whole) if width is None else whole


def _cells(row: Row, section: Section) -> list[str]:
    """The cells with the indentation of the first."""
    first, *rest = (one_line(cell) or EMPTY for cell in row.cells)
    return [" " * _depth(row, section) + first, *rest]


def _depth(row: Row, section: Section) -> int:
    return 2 * bool(section.title) + 2 * row.child


def _natural(
    shown: Sequence[Column], sections: Sequence[Section], kept: Sequence[int]
) -> dict[int, int]:
    """How wide each column is where there is room."""
    rows = [_cells(row, section) for section in sections for row in section.rows]
    return {n: max([len(shown[n].title), *(len(cells[n]) for cells in rows)]) for n in kept}


def _total(widths: dict[int, int], kept: Sequence[int]) -> int:
    return sum(widths[n] for n in kept) + _GAP * (len(kept) - 1)


def _shrink(
    shown: Sequence[Column],
    sections: Sequence[Section],
    widths: dict[int, int],
    kept: Sequence[int],
    width: int,
) -> None:
    """Take width from the widest columns, down to their longest words. The first keeps its own."""
    rows = [_cells(row, section) for section in sections for row in section.rows]
    least = {
        n: max(
            len(word)
            for cells in [[one.title for one in shown], *rows]
            for word in cells[n].split() or [""]
        )
        for n in kept[1:]
    }
    while _total(widths, kept) > width:
        able = [n for n in kept[1:] if widths[n] > least[n]]
        if not able:
            return
        widths[max(able, key=lambda n: widths[n])] -= 1


def _row(row: Row, widths: dict[int, int], kept: Sequence[int], depth: int) -> list[str]:
    cells = [one_line(cell) or EMPTY for cell in row.cells]
    parts = [
        [" " * depth + cells[n]] if n == kept[0] else _broken(cells[n], widths[n]) for n in kept
    ]
    height = max(map(len, parts))
    return [
        _line(
            [
                _coloured(part[at], cells[n]) if at < len(part) else ""
                for n, part in zip(kept, parts, strict=True)
            ],
            widths,
            kept,
        )
        for at in range(height)
    ]


def _broken(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)


def _line(cells: Sequence[str], widths: dict[int, int], kept: Sequence[int]) -> str:
    padded = (
        cell + " " * (widths[n] - len(click.unstyle(cell)))
        for n, cell in zip(kept, cells, strict=True)
    )
    return (" " * _GAP).join(padded).rstrip()


def fitted(words: str, depth: int) -> list[str]:
    """One line of text, broken between words where a terminal is too narrow for it at a depth."""
    width = _terminal()
    if width is None:
        return [one_line(words)]
    room = max(width - depth, 20)
    return textwrap.wrap(one_line(words), room, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def indented(line: str, further: int = 0) -> list[str]:
    """A line that may belong to the one above, fitted and set in further."""
    depth = len(line) - len(line.lstrip(" ")) + further
    return [" " * depth + part for part in fitted(line, depth)]


def paragraph(lines: Iterable[str]) -> str:
    """Lines of text one below the other, each fitted at its own depth."""
    return "".join(f"{part}\n" for line in lines for part in indented(line))


def _terminal() -> int | None:
    """The columns of the terminal; None where stdout leads elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():  # None: closed by the parent
        return None
    return max(shutil.get_terminal_size().columns, _LEAST)


def _wrapped(line: str, width: int | None, depth: int) -> list[str]:
    """A whole line, broken between words; what follows the first is set in further."""
    indented = " " * depth + one_line(line)
    if width is None or len(indented) <= width:
        return [indented]
    return textwrap.wrap(
        indented,
        max(width, depth + 20),
        subsequent_indent=" " * (depth + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


_MEANINGS = {
    "green": ("yes", "enabled", "ok", "done", "ready", "running", "planned"),
    "yellow": ("to be", "advice", "inprogress", "waiting"),
    "red": ("problem", "refused", "failed"),
}


def _coloured(part: str, cell: str) -> str:
    """A cell in the colour of what it says, where it says that something is well or is not."""
    words = cell.lower()
    for colour, beginnings in _MEANINGS.items():
        if words.startswith(beginnings):
            return click.style(part, fg=colour)
    return part
