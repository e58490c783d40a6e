"""What the least moves say, sentence by sentence, in the order in which they are done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Move, Moves, Outcome
from laneway.core.phrases import few, short_name


def headline(found: Moves) -> str:
    """Whether moves make room, and how many."""
    if found.outcome is Outcome.NONE:
        return f"No: there is no room after {_moves(found.limit)}{' or fewer' * (found.limit > 0)}."
    if found.outcome is Outcome.UNDECIDED:
        return "Not known: the search ended before it had an answer."
    if found.moves:
        return f"Yes, after {_moves(len(found.moves))}. Fewer do not suffice."
    return "Yes: no VM has to move."


def proved(found: Moves) -> Iterator[str]:
    """What is certain where the search ended early."""
    if found.outcome is Outcome.UNDECIDED and found.proved >= 0:
        fewer = " or fewer" * (found.proved > 0)
        yield f"proved: there is no room after {_moves(found.proved)}{fewer}"


def before(found: Moves) -> Iterator[str]:
    """What is to be done before the first move."""
    for name in found.in_the_way:
        yield f"first disable VGPUDevice {name}: it is in the way, and no VM has it"


def moves(found: Moves) -> Iterator[str]:
    """Each move."""
    yield from map(move, found.moves)


def after(found: Moves) -> Iterator[str]:
    """Where there is room then."""
    for (profile, gpu), count in Counter(found.places).items():
        then = "then " if found.moves or found.in_the_way else ""
        yield f"{then}room for {short_name(profile)}{f'={count}' * (count > 1)} on {gpu}"


def staying(found: Moves) -> Iterator[str]:
    """Which VMs and pods are not moved, and why, where no moves were found."""
    if found.outcome is Outcome.FOUND:
        return
    by_reason: dict[str, list[str]] = defaultdict(list)
    for holder, why in sorted(found.stay.items()):
        by_reason[why].append(holder)
    for why, holders in sorted(by_reason.items()):
        yield f"not moved, as {why}: {few(holders)}"


def move(one: Move) -> str:
    """One move."""
    to, on = (
        ", ".join(f"{short_name(leg.profile)} {word} {leg.target}" for leg in one.legs)
        for word in ("to", "on")
    )
    match one.how:
        case How.MIGRATE:
            return f"migrate {one.vm} from node {one.source} to node {one.target}: {to}"
        case How.RESTART:
            stays = one.source == one.target
            moved = f"from node {one.source} to node {one.target}"
            where = f"on node {one.target}" if stays else moved
            return f"restart {one.vm} {where}: {to}"
        case How.STOPPED:
            return f"reserve for the stopped {one.vm} on node {one.target}: {on}"


def _moves(count: int) -> str:
    return f"{count} move{'s' if count != 1 else ''}"
