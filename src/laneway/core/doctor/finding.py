"""A finding: how bad it is, what it is, why it matters and what a person can do about it.

Findings are data, so that the table, JSON and tests see the same. `check` is a stable name.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

PREPARE = "laneway host prepare --apply"
"""What mends what files of the node can mend: its boot parameters, and its drivers at boot."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    ADVICE = "advice"
    """Works, or is not known to work; worth a look."""
    PROBLEM = "problem"
    """Something does not work, or will not."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check has found."""

    level: Level
    check: str
    what: str
    why: str = ""
    remedy: str = ""


def ok(check: str, what: str) -> Finding:
    """All is well."""
    return Finding(level=Level.OK, check=check, what=what)


def advice(check: str, what: str, *, why: str = "", remedy: str = "") -> Finding:
    """Worth a look."""
    return Finding(level=Level.ADVICE, check=check, what=what, why=why, remedy=remedy)


def problem(check: str, what: str, *, why: str, remedy: str) -> Finding:
    """It does not work as it is."""
    return Finding(level=Level.PROBLEM, check=check, what=what, why=why, remedy=remedy)


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether there is no problem."""
    return all(finding.level is not Level.PROBLEM for finding in findings)
