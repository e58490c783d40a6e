"""A page about one thing: a title, then sections of labelled facts or of plain lines."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from laneway.cli.errors import one_line
from laneway.cli.output import View
from laneway.cli.table import fitted, indented


class Fact(msgspec.Struct, frozen=True):
    """Something known. A fact without a value is not shown; each value takes a line."""

    label: str
    values: tuple[str, ...]


class Section(msgspec.Struct, frozen=True):
    """Facts, then lines, under a heading."""

    heading: str
    facts: tuple[Fact, ...] = ()
    lines: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    """A picture: lines that stay as they are, before all others."""


class Page(msgspec.Struct, frozen=True):
    """All that is said about one thing."""

    title: str
    sections: tuple[Section, ...]


def fact(label: str, *values: str) -> Fact:
    """A fact from the values that are not empty."""
    return Fact(label, tuple(value for value in values if value))


def view(page: Page, *, document: Any, name: str) -> View:
    """A page in all forms."""
    return View(document=document, names=[name], text=lambda _: text(page))


def text(page: Page) -> str:
    """The page as lines that fit the terminal; its headings are bold on a terminal."""
    lines = [click.style(one_line(page.title), bold=True)]
    for section in page.sections:
        facts = [fact for fact in section.facts if fact.values]
        if not (facts or section.lines or section.drawn):
            continue
        lines += ["", click.style(one_line(section.heading), bold=True)]
        lines += [f"  {line}" for line in section.drawn]
        width = max((len(fact.label) for fact in facts), default=0)
        for fact in facts:
            values = [part for value in fact.values for part in fitted(value, width + 4)]
            for n, value in enumerate(values):
                label = "" if n else fact.label
                lines.append(f"  {one_line(label):<{width}}  {value}")
        for line in section.lines:
            lines += indented(line, 2)
    return "".join(f"{line}\n" for line in lines)
