"""Tables for people and for pipes.

A terminal gets colours, or cells and lines that wrap between words. Anything else gets plain
aligned text: one device per line, nothing wrapped or cut off, so that `grep` and `awk` find what
they look for.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click
import msgspec

from laneway.cli.errors import one_line

EMPTY = "-"


class Row(msgspec.Struct, frozen=True):
    """One device."""

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Whole lines about the device that fit no column."""
    child: bool = False
    """Belongs to the row above."""


class Section(msgspec.Struct, frozen=True):
    """Rows under a title."""

    title: str
    rows: tuple[Row, ...]


def show(columns: Sequence[str], sections: Sequence[Section]) -> None:
    """Print the table in the form that suits where stdout leads."""
    if sys.stdout.isatty():
        _show_rich(columns, sections)
    else:
        click.echo(plain(columns, sections), nl=False)


def echo(columns: Sequence[str], sections: Sequence[Section]) -> None:
    """Print the table as aligned text; a terminal gets its lines broken between words."""
    text = plain(columns, sections)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "".join(f"{_broken(line, width)}\n" for line in text.splitlines())
    click.echo(text, nl=False)


def _broken(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(
        line,
        max(width, len(indent) + 20),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plain(columns: Sequence[str], sections: Sequence[Section]) -> str:
    """The table as aligned text. The last column is as long as it needs to be."""
    lines: list[tuple[str, ...]] = [tuple(columns)]
    for section in sections:
        lines.append((one_line(section.title),))
        for row in section.rows:
            indent = "    " if row.child else "  "
            first, *rest = (one_line(cell) or EMPTY for cell in row.cells)
            lines.append((indent + first, *rest))
            lines.extend((f"{indent}  {one_line(note)}",) for note in row.notes)
    full = [line for line in lines if len(line) == len(columns)]
    widths = [max(len(line[n]) for line in full) for n in range(len(columns))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        + "\n"
        for line in lines
    )


def _show_rich(columns: Sequence[str], sections: Sequence[Section]) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow, and needed only here
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console(highlight=False)
    for section in sections:
        table = Table(
            title=Text(one_line(section.title), style="bold"),
            title_justify="left",
            box=None,
            padding=(0, 2, 0, 0),
            header_style="dim",
        )
        table.add_column(columns[0], no_wrap=True)
        for column in columns[1:]:
            table.add_column(column, overflow="fold")
        for row in section.rows:
            first, second, *rest = (one_line(cell) or EMPTY for cell in row.cells)
            device = Text(second)
            for note in row.notes:
                device.append(f"\n{one_line(note)}", style="dim")
            indent = "  " if row.child else ""
            *middle, last = rest
            verdict = Text(last, style="green" if last.startswith("yes") else "")
            table.add_row(Text(indent + first), device, *map(Text, middle), verdict)
        console.print(table)
        console.print()
