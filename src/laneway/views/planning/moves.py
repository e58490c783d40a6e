"""What the least moves say, sentence by sentence, in the order in which they are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from laneway.core.fleet.moves import Move, Moves, Outcome
from laneway.core.phrases import few


def headline(found: Moves) -> str:
    """Whether moves make room, and how many."""
    count = len(found.moves)
    if found.outcome is Outcome.NONE:
        return f"No {found.limit} moves of VMs make room for all of them."
    if found.outcome is Outcome.UNDECIDED:
        short = "1 move does" if found.proved == 1 else f"{found.proved} moves or fewer do"
        proved = f" {short} not suffice." if found.proved > 0 else ""
        return f"The search for moves ended early, so it is not known which make room.{proved}"
    if not count:
        return "Placed otherwise, all of them have room without a move."
    if count == 1:
        return "1 move of a VM makes room for all of them."
    return f"{count} moves of VMs make room for all of them."


def steps(found: Moves) -> Iterator[str]:
    """What is to be done, in this order."""
    if found.in_the_way:
        yield f"Disable what no VM has and is in the way: {few(found.in_the_way)}"
    yield from map(_move, found.moves)
    for profile, gpu in found.places:
        yield f"{profile} has room on {gpu}"


def staying(found: Moves) -> Iterator[str]:
    """Which VMs and pods are not moved, and why."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for holder, why in found.stay.items():
        by_reason[why].append(holder)
    for why, holders in sorted(by_reason.items()):
        yield f"not moved, because {why}: {few(sorted(holders))}"


def _move(one: Move) -> str:
    legs = ", ".join(f"{leg.profile} from {leg.source} to {leg.target}" for leg in one.legs)
    if one.running:
        return f"Migrate VM {one.vm} from node {one.source} to node {one.target}: {legs}"
    return f"Start the stopped VM {one.vm} on node {one.target}: {legs}"
