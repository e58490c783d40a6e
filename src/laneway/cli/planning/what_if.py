"""`laneway plan what-if`: the answer as text and as a document."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.planning.asked import Asked, changes
from laneway.cli.planning.sources import fleet_of
from laneway.cli.statuses import ExitStatus
from laneway.core.fleet.known import ChangeError
from laneway.core.fleet.what_if import Answer, what_if
from laneway.views.planning import what_if as said

_MOST_LINES = 40


def answer(asked: Asked, source: str | None, output: str | None, where: ClusterChoice) -> int:
    """Print the answer; gives the exit status. Raises Failure."""
    fleet = fleet_of(source, where)
    try:
        found = what_if(fleet, changes(asked, fleet))
    except ChangeError as error:
        raise Failure(str(error)) from None
    lines = list(report(found, partly=bool(fleet.unreadable)))
    view = View(
        document={"answer": found.yes, **_document(found), "unreadable": fleet.unreadable},
        names=[one.vm for one in found.placed],
        text=lambda _: table.paragraph(lines),
    )
    show(view, output)
    return ExitStatus.DONE if found.yes else ExitStatus.NO


def _document(found: Answer) -> dict[str, object]:
    return {name: getattr(found, name) for name in Answer.__struct_fields__}


def report(found: Answer, *, partly: bool) -> Iterator[str]:
    """The answer in lines; `partly`: not all of the fleet could be read."""
    yield said.headline(found)
    if partly:
        yield "  This is of what could be read. The warnings say what is missing or assumed."
    yield from (f"  {words}" for words in found.unchangeable)
    for one in found.placed[:_MOST_LINES]:
        yield f"  {one.vm}: {said.where(one)}"
    if len(found.placed) > _MOST_LINES:
        yield f"  and {len(found.placed) - _MOST_LINES} more; -o json lists them all"
    for sentence in (*said.no_room(found), *said.waiting(found), *map(said.room, found.left)):
        yield f"  {sentence}"
