"""`laneway plan moves`: the least moves after which vGPUs fit, as text and as a document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from laneway.cli import capacity_question as question
from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.planning.sources import fleet_of
from laneway.cli.planning.wanted import in_full
from laneway.cli.statuses import ExitStatus
from laneway.core.fleet.moves import Move, Moves, Outcome, least_moves
from laneway.core.phrases import few, short_name

_MOST_WANTED = 100
"""The search goes a level deeper for each vGPU."""


def answer(
    profiles: Iterable[str],
    source: str | None,
    limit: int,
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Print the moves; gives the exit status. Raises Failure."""
    asked = question.requested(profiles, _MOST_WANTED)
    if sum(asked.values()) > _MOST_WANTED:
        raise Failure(f"these are {sum(asked.values())} vGPUs; request at most {_MOST_WANTED}")
    fleet = fleet_of(source, where)
    found = least_moves(fleet, in_full(fleet, asked), limit=limit)
    lines = list(report(found))
    view = View(
        document={name: getattr(found, name) for name in Moves.__struct_fields__},
        names=[one.vm for one in found.moves],
        text=lambda _: "".join(f"{part}\n" for line in lines for part in table.indented(line)),
    )
    show(view, output)
    return ExitStatus.DONE if found.outcome is Outcome.FOUND else ExitStatus.NO


def report(found: Moves) -> Iterator[str]:
    """The answer in lines."""
    if found.outcome is Outcome.NONE:
        yield f"No: there is no room after {_moves(found.limit)}{' or fewer' * (found.limit > 0)}."
    elif found.outcome is Outcome.UNDECIDED:
        yield "Not known: the search ended before it had an answer."
        if found.proved >= 0:
            fewer = " or fewer" * (found.proved > 0)
            yield f"  proved: there is no room after {_moves(found.proved)}{fewer}"
    elif found.moves:
        yield f"Yes, after {_moves(len(found.moves))}. Fewer do not suffice."
    else:
        yield "Yes: no VM has to move."
    for name in found.in_the_way:
        yield f"  first disable VGPUDevice {name}: it is in the way, and no VM has it"
    for number, move in enumerate(found.moves, 1):
        yield f"  {number}. {_move(move)}"
    for (profile, gpu), count in Counter(found.places).items():
        yield f"  then room for {short_name(profile)}{f'={count}' * (count > 1)} on {gpu}"
    if found.outcome is not Outcome.FOUND:
        yield from _stay(found)


def _stay(found: Moves) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for holder, why in sorted(found.stay.items()):
        by_reason[why].append(holder)
    for why, holders in sorted(by_reason.items()):
        yield f"  not moved, as {why}: {few(holders)}"


def _move(move: Move) -> str:
    legs = ", ".join(f"{short_name(one.profile)} to {one.target}" for one in move.legs)
    if move.running:
        return f"migrate {move.vm} from node {move.source} to node {move.target}: {legs}"
    return f"start the stopped {move.vm} on node {move.target}: {legs}"


def _moves(count: int) -> str:
    return f"{count} move{'s' if count != 1 else ''}"
