"""How commands end: what each exit status means, for scripts and for the reference."""

from __future__ import annotations

from collections.abc import Mapping

EXIT_STATUSES: Mapping[int, str] = {
    0: "Done. It is as requested.",
    1: "Refused or failed. The reason is on standard error. Nothing was changed unless the text "
    "says so.",
    2: "Called wrongly: an option or argument that the command does not have or cannot take.",
    3: "The answer is no: `laneway capacity RESOURCE` finds no room, `laneway doctor` finds a "
    "problem, `laneway takeover` is blocked, `laneway release --all` leaves something.",
    4: "Not finished in time. The change is stored, and the node's agent goes on with it.",
    130: "Interrupted by Ctrl-C, SIGTERM or SIGHUP. Standard error says what goes on. "
    "`laneway host` finishes or undoes an interrupted plan when it is next called.",
}
