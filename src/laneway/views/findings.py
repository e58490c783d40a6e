"""Findings as data for programs, and how many there are of each level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from laneway.core.doctor.finding import Finding, Level


def plain(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """For programs."""
    return [msgspec.to_builtins(finding) for finding in findings]


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
