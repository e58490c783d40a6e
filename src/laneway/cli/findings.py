"""Findings as people and programs read them, and the exit status that they give.

What is well is one line each; what is not says why it matters and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from laneway.cli.errors import one_line
from laneway.cli.output import View
from laneway.cli.output import show as output_show
from laneway.cli.statuses import ExitStatus
from laneway.cli.table import fitted
from laneway.core.doctor.finding import Finding, Level, healthy
from laneway.views.findings import counted, plain

_COLOURS = {Level.OK: "green", Level.ADVICE: "yellow", Level.PROBLEM: "red"}
_WIDTH = max(map(len, Level))


def report(findings: Sequence[Finding], output: str | None, about: str) -> int:
    """Print findings; gives the exit status. `about`: what was examined."""
    view = View(
        document={"about": about, "healthy": healthy(findings), "findings": plain(findings)},
        names=[f"{finding.level.value}/{finding.check}" for finding in findings],
        text=lambda _: f"{text(findings)}{one_line(f'{about}: {counted(findings)}')}\n",
    )
    output_show(view, output)
    return ExitStatus.DONE if healthy(findings) else ExitStatus.NO


def text(findings: Sequence[Finding]) -> str:
    """Every finding, each with its why and its remedy below it; a terminal gets lines that fit."""
    lines = []
    for finding in findings:
        level = click.style(f"{finding.level.value:<{_WIDTH}}", fg=_COLOURS[finding.level])
        first, *rest = fitted(f"{finding.check}: {finding.what}", _WIDTH + 2)
        lines += [f"{level}  {first}", *(f"{'':{_WIDTH}}  {line}" for line in rest)]
        for words in filter(None, (finding.why, finding.remedy and f"-> {finding.remedy}")):
            lines += [f"{'':{_WIDTH}}  {line}" for line in fitted(words, _WIDTH + 2)]
    return "".join(f"{line}\n" for line in lines)
