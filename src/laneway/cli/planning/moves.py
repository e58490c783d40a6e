"""`laneway plan moves`: the least moves after which vGPUs fit, as text and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.cli import capacity_question as question
from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.planning.moving import Apply, Plan, carry_out
from laneway.cli.planning.sources import fleet_of
from laneway.cli.planning.wanted import in_full, need_mode
from laneway.cli.statuses import ExitStatus
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.movable import can_restart
from laneway.core.fleet.moves import Moves, Outcome, least_moves
from laneway.views.planning import moves as said

_MOST_WANTED = 100
"""The search goes a level deeper for each vGPU."""


def answer(
    profiles: Iterable[str],
    source: str | None,
    limit: int,
    output: str | None,
    where: ClusterChoice,
    *,
    restart: bool = False,
    apply: Apply | None = None,
) -> int:
    """Print the moves, and make them with `apply`; gives the exit status. Raises Failure."""
    asked = question.requested(profiles, _MOST_WANTED)
    if sum(asked.values()) > _MOST_WANTED:
        raise Failure(f"these are {sum(asked.values())} vGPUs; request at most {_MOST_WANTED}")

    def propose(fleet: Fleet) -> Plan:
        wanted = in_full(fleet, asked, in_instances=True)
        need_mode(fleet, wanted)
        return Plan(least_moves(fleet, wanted, limit=limit, restart=restart), wanted)

    if apply is not None:
        return carry_out(propose, report, apply, output, where)
    fleet = fleet_of(source, where)
    found = propose(fleet).found
    if fleet.unreadable and found.outcome is Outcome.NONE:
        raise Failure(
            "it is not known whether moves make room: what can be read has none, and not all can "
            "be read"
        )
    lines = list(report(found))
    view = View(
        document={name: getattr(found, name) for name in Moves.__struct_fields__},
        names=[one.vm for one in found.moves],
        text=lambda _: table.paragraph(lines),
    )
    show(view, output)
    return ExitStatus.DONE if found.outcome is Outcome.FOUND else ExitStatus.NO


def report(found: Moves) -> Iterator[str]:
    """The answer in lines."""
    yield said.headline(found)
    yield from (f"  {one}" for one in (*said.proved(found), *said.before(found)))
    yield from (f"  {number}. {one}" for number, one in enumerate(said.moves(found), 1))
    yield from (f"  {one}" for one in (*said.after(found), *said.staying(found)))
    if found.outcome is not Outcome.FOUND and any(map(can_restart, found.stay.values())):
        yield "  -> To allow restarts of VMs that are not live-migratable: add --restart"
