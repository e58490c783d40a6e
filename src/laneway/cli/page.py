"""A page about one thing: a title, then sections of labelled facts or of plain lines."""

from __future__ import annotations

import click
import msgspec

from laneway.cli.errors import one_line


class Fact(msgspec.Struct, frozen=True):
    """Something known. Facts without a value are not shown; several values take a line each."""

    label: str
    values: tuple[str, ...]


class Section(msgspec.Struct, frozen=True):
    """Facts, then lines, under a heading."""

    heading: str
    facts: tuple[Fact, ...] = ()
    lines: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """All that is said about one thing."""

    title: str
    sections: tuple[Section, ...]


def fact(label: str, *values: str) -> Fact:
    """A fact from the values that are not empty."""
    return Fact(label, tuple(value for value in values if value))


def show(page: Page) -> None:
    """Print the page; its headings are bold on a terminal, and only there."""
    lines = [click.style(one_line(page.title), bold=True)]
    for section in page.sections:
        facts = [fact for fact in section.facts if fact.values]
        if not facts and not section.lines:
            continue
        lines += ["", click.style(one_line(section.heading), bold=True)]
        width = max((len(fact.label) for fact in facts), default=0)
        for fact in facts:
            for n, value in enumerate(fact.values):
                label = "" if n else fact.label
                lines.append(f"  {one_line(label):<{width}}  {one_line(value)}")
        lines += [_indented(line) for line in section.lines]
    click.echo("\n".join(lines))


def _indented(line: str) -> str:
    """Two columns further in than the line is, so that a line may belong to the one above."""
    depth = len(line) - len(line.lstrip(" "))
    return " " * (depth + 2) + one_line(line)
