"""A page about one thing, printed."""

from __future__ import annotations

from typing import Any

import click

from laneway.cli.errors import one_line
from laneway.cli.output import View
from laneway.cli.table import fitted, indented
from laneway.views.page import Page


def view(page: Page, *, document: Any, name: str) -> View:
    """A page in all forms."""
    return View(document=document, names=[name], text=lambda _: text(page))


def text(page: Page) -> str:
    """The page as lines that fit the terminal; its headings are bold on a terminal."""
    lines = [click.style(one_line(page.title), bold=True)]
    for section in page.sections:
        if not section.shown:
            continue
        facts = section.shown_facts
        lines += ["", click.style(one_line(section.heading), bold=True)]
        if section.picture is not None:
            from laneway.cli.picture import lines as drawn  # noqa: PLC0415 - slow to import

            lines += [f"  {line}" for line in drawn(section.picture)]
        width = max((len(fact.label) for fact in facts), default=0)
        for fact in facts:
            values = [part for value in fact.values for part in fitted(value, width + 4)]
            for n, value in enumerate(values):
                label = "" if n else fact.label
                lines.append(f"  {one_line(label):<{width}}  {value}")
        for line in section.lines:
            lines += indented(line, 2)
    return "".join(f"{line}\n" for line in lines)
