"""Findings as people and programs read them, and the exit status that they give.

What is well is one line each; what is not says why it matters and what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click
import msgspec

from laneway.cli.errors import one_line
from laneway.cli.output import print_json
from laneway.core.doctor.finding import Finding, Level, healthy

NO = 3
"""Exit status where there is a problem."""

_COLOURS = {Level.OK: "green", Level.ADVICE: "yellow", Level.PROBLEM: "red"}
_WIDTH = max(map(len, Level))


def told(findings: Sequence[Finding], output: str, about: str) -> int:
    """Print findings; gives the exit status. `about`: what was looked at."""
    if output == "json":
        print_json(
            {"about": about, "healthy": healthy(findings), "findings": plain(findings)},
        )
    else:
        show(findings)
        click.echo(one_line(f"{about}: {counted(findings)}"))
    return 0 if healthy(findings) else NO


def plain(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """For programs."""
    return [msgspec.to_builtins(finding) for finding in findings]


def show(findings: Sequence[Finding]) -> None:
    """Every finding, each with its why and its remedy below it."""
    for finding in findings:
        level = click.style(f"{finding.level.value:<{_WIDTH}}", fg=_COLOURS[finding.level])
        click.echo(f"{level}  {one_line(f'{finding.check}: {finding.what}')}")
        for line in filter(None, (finding.why, finding.remedy and f"-> {finding.remedy}")):
            click.echo(f"{'':{_WIDTH}}  {one_line(line)}")


def counted(findings: Sequence[Finding]) -> str:
    """How many there are of each level, in words."""
    counts = Counter(finding.level for finding in findings)
    words = {Level.PROBLEM: ("problem", "problems"), Level.ADVICE: ("piece", "pieces")}
    parts = []
    for level, (one, more) in words.items():
        if count := counts[level]:
            of = " of advice" if level is Level.ADVICE else ""
            parts.append(f"{count} {one if count == 1 else more}{of}")
    return " and ".join(parts) or "all is well"
