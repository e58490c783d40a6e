"""What becomes of a fleet after the changes of the form, worked out in the planner's thread.

Where the answer is no, the least moves that would make it a yes are searched for, with bounded
work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from laneway.core.fleet import resources
from laneway.core.fleet.changes import AddVms, Change, ChangeRequests, carried_out
from laneway.core.fleet.known import ChangeError
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.movable import can_restart
from laneway.core.fleet.moves import Moves, Outcome
from laneway.core.fleet.remedy import moves_for
from laneway.core.fleet.what_if import Answer, what_if
from laneway.core.phrases import closest, line
from laneway.views.planning import moves as move_words
from laneway.views.planning import what_if as words
from laneway.views.planning.command import command, moves_command
from laneway.web.pages.planner.fields import Read

EFFORT = 30_000
"""Positions of the search for moves."""
_ROOM_EFFORT = 500_000
"""Nodes, and ways to place a VM on one. A cluster of a thousand nodes has seldom a tenth of it."""
_SHOWN = 50


class Left(NamedTuple):
    """What is left of a resource."""

    resource: str
    today: int
    then: int


class Said(NamedTuple):
    """An answer as it is shown."""

    yes: bool
    headline: str
    placed: tuple[tuple[str, str], ...] = ()
    """A VM, and where it goes."""
    more: int = 0
    """VMs that go somewhere besides those."""
    why: tuple[str, ...] = ()
    """Why not."""
    waiting: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    found: bool = False
    """Whether moves make it a yes."""
    moves: str = ""
    """What the search for moves found; empty: none was made."""
    steps: tuple[str, ...] = ()
    staying: tuple[str, ...] = ()
    restarts: bool = False
    """Whether more VMs would move if they might be restarted."""
    room: tuple[str, ...] = ()
    """Where there is room after the moves."""
    command: str = ""
    """That asks the same in a terminal."""
    moves_command: str = ""
    """That finds the same moves; empty: it knows no changes but more VMs."""


class Wrong(NamedTuple):
    """Why there is no answer."""

    field: str
    """The field of the form that it is about."""
    words: str


def answered(fleet: Fleet, read: Read, source: str, *, restart: bool) -> Said | Wrong:
    """The answer; `source`: the name of an uploaded file, empty for the cluster.

    `restart`: VMs that cannot be migrated may be restarted. Raises TooLongError.
    """
    try:
        read = read._replace(changes=_in_full(fleet, read.changes))
        found = what_if(fleet, read.changes, _ROOM_EFFORT)
        moves = moves_for(fleet, read.changes, found, EFFORT, restart=restart)
    except ChangeError as error:
        return Wrong(_field(fleet, read), str(error))
    said = _said(found, moves)._replace(command=command(read.changes, source))
    if moves is None:
        return said
    same = moves_command(fleet, read.changes, source, restart=restart)
    return said._replace(moves_command=same)


def _in_full(fleet: Fleet, changes: Iterable[Change]) -> tuple[Change, ...]:
    """The same where an address has devices by short names. Raises ChangeError."""
    found: list[Change] = []
    known: frozenset[str] = frozenset()
    for one in changes:
        if not isinstance(one, AddVms | ChangeRequests) or all("/" in key for key in one.requests):
            found.append(one)
            continue
        known = known or frozenset(resources.resources(fleet))
        requests: Counter[str] = Counter()
        for name, count in one.requests.items():
            alike = resources.meant(name, known)
            if len(alike) != 1:
                raise ChangeError(_no_resource(name, alike or known))
            requests[alike[0]] += count
        found.append(msgspec.structs.replace(one, requests=dict(requests)))
    return tuple(found)


def _no_resource(name: str, known: Collection[str]) -> str:
    near = [one.rpartition("_")[2] for one in known]
    hint = f" Did you mean {alike[0]}?" if (alike := closest(name, near)) else ""
    return f"no node has a resource {line(name[:80])}.{hint}"


def _field(fleet: Fleet, read: Read) -> str:
    """Of the first change that is not possible on the fleet."""
    for number, field in enumerate(read.fields, 1):
        try:
            carried_out(fleet, _in_full(fleet, read.changes[:number]))
        except ChangeError:
            return field
    return ""


def _said(found: Answer, moves: Moves | None) -> Said:
    said = Said(
        yes=found.yes,
        headline=words.headline(found),
        placed=tuple((one.vm, words.where(one)) for one in found.placed[:_SHOWN]),
        more=max(len(found.placed) - _SHOWN, 0),
        why=(*found.unchangeable, *words.no_room(found)),
        waiting=tuple(words.waiting(found)),
        left=tuple(Left(one.resource, one.today, one.then) for one in found.left),
    )
    if moves is None:
        return said
    is_found = moves.outcome is Outcome.FOUND
    return said._replace(
        found=is_found,
        moves=move_words.headline(moves),
        steps=(
            *move_words.proved(moves),
            *move_words.before(moves),
            *move_words.moves(moves),
        ),
        room=tuple(move_words.after(moves)),
        restarts=not is_found and any(map(can_restart, moves.stay.values())),
        staying=tuple(move_words.staying(moves)),
    )
