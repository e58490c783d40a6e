"""How commands end: what each exit status means, for scripts, help and the reference."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO = 3
    UNFINISHED = 4
    INTERRUPTED = 130


EXIT_STATUSES: Mapping[int, str] = {
    0: "Done. It is as requested.",
    1: "Refused or failed. The reason is on standard error. Nothing was changed unless the text "
    "says so.",
    2: "Called wrongly: an option or argument that the command does not have or cannot take.",
    3: "The answer is no: `laneway capacity RESOURCE` or `laneway plan` finds no room, "
    "`laneway doctor` finds a problem, `laneway takeover` is blocked, `laneway release --all` "
    "leaves something.",
    4: "Not finished in time. The change is stored, and the node's agent goes on with it.",
    130: "Interrupted by Ctrl-C, SIGTERM or SIGHUP. Standard error says what goes on. "
    "`laneway host` finishes or undoes an interrupted plan when it is next called.",
}
"""In full, for the reference."""

_BRIEF = {
    ExitStatus.DONE: "done, or the answer is yes",
    ExitStatus.FAILED: "refused or failed",
    ExitStatus.USAGE: "called wrongly",
    ExitStatus.NO: "the answer is no: no room, a problem, or something is left",
    ExitStatus.UNFINISHED: "not finished in time; the agent goes on",
    ExitStatus.INTERRUPTED: "interrupted by a signal",
}


def epilog() -> str:
    """The statuses as lines of a help text."""
    lines = "\n".join(f"    {status.value:>3}  {words}" for status, words in _BRIEF.items())
    return f"\b\nExit status:\n{lines}"
