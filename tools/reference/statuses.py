"""The page of exit statuses."""

from __future__ import annotations

from laneway.cli.statuses import EXIT_STATUSES
from reference.markdown import code, page, table

_INTRODUCTION = """
All commands end alike. Results are on standard output; refusals, failures and progress are on
standard error. A Python traceback is a defect of Laneway.
"""


def statuses() -> str:
    """What each exit status means."""
    rows = ((code(str(status)), text) for status, text in EXIT_STATUSES.items())
    return page("Exit statuses", _INTRODUCTION, table(("status", "meaning"), rows))
