"""How everything that objects request is taken back, so that nodes have their devices again.

What depends on something else goes before it: layouts, which would ask again; claims and vGPUs; the
GPU instances of MIG; virtual functions of GPUs and network cards. Each look decides again from what
there is, so nothing is remembered, and an interrupted release begins again. What is in use stays
allocated: its release is not requested, but reported. What was never requested through its
object stays, too: it is not Laneway's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import Literal

import msgspec

Way = Literal["delete", "disable"]
_NAMED = 3
"""So many are named of what has to go first."""


class Stage(IntEnum):
    """What goes first."""

    LAYOUT = 0
    DEVICE = 1
    """Claims and vGPUs."""
    MIG = 2
    FUNCTIONS = 3
    """Virtual functions of GPUs and network cards."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One object that requests something of the hardware, or shows that it is there."""

    kind: str
    name: str
    node: str
    """Empty for a layout."""
    stage: Stage
    way: Way
    desired: bool
    """It requests something. What can only be deleted asks as long as it is not deleted."""
    present: bool
    """Something of it is there still."""
    answered: bool = True
    """What it shows is its agent's answer to what it requests now."""
    holder: str = ""
    """Who has the device."""
    words: str = ""
    """What its agent says, where that is not yes."""
    card: str = ""
    """The card that it is on: equal for everything on one card."""
    follows: bool = False
    """It goes by itself once what it belongs to has gone."""
    elsewhere: tuple[str, ...] = ()
    """Of a layout: nodes that it speaks of and that are to keep their devices."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


class Action(msgspec.Struct, frozen=True):
    """What is to be done now."""

    target: Target

    @property
    def words(self) -> str:
        verb = "delete" if self.target.way == "delete" else "disable"
        return f"{verb} {self.target.title}"


class Obstacle(msgspec.Struct, frozen=True):
    """What is not gone yet, and why."""

    target: Target
    why: str
    in_turn: bool = False
    """Nothing is amiss: it waits for others that are reported, too."""

    @property
    def words(self) -> str:
        return f"{self.target.title}: {self.why}"


class Look(msgspec.Struct, frozen=True):
    """What is to be done, and what is waited for."""

    actions: tuple[Action, ...]
    obstacles: tuple[Obstacle, ...]

    @property
    def done(self) -> bool:
        return not (self.actions or self.obstacles)


def decide(targets: Iterable[Target], silent: Collection[str] = ()) -> Look:
    """What can be done now. `silent`: nodes whose agent does not answer."""
    there = sorted(filter(_is_there, targets), key=lambda one: (one.stage, one.kind, one.name))
    index = _Index(there)
    actions: list[Action] = []
    obstacles: list[Obstacle] = []
    for target in there:
        if target.follows or not target.desired:
            obstacles.append(Obstacle(target, _waiting(target, silent), in_turn=target.follows))
        elif why := _stands_against(target):
            obstacles.append(Obstacle(target, why))
        elif first := index.before(target):
            obstacles.append(Obstacle(target, _after(first), in_turn=True))
        else:
            actions.append(Action(target))
    return Look(tuple(actions), tuple(obstacles))


def everything(targets: Iterable[Target]) -> tuple[list[Action], list[Obstacle]]:
    """What would be done in the end, and what is known to stand against it."""
    found = sorted(targets, key=lambda one: (one.stage, one.kind, one.name))
    obstacles = [
        Obstacle(one, why) for one in found if _is_there(one) and (why := _stands_against(one))
    ]
    held = {one.target.title for one in obstacles}
    actions = [
        Action(one)
        for one in found
        if one.desired and not one.follows and _is_there(one) and one.title not in held
    ]
    return actions, obstacles


def _is_there(target: Target) -> bool:
    return target.desired or target.present or not target.answered


def _stands_against(target: Target) -> str:
    if target.holder:
        return f"it is allocated to {target.holder}: stop that first"
    if target.elsewhere:
        return (
            f"it selects {', '.join(target.elsewhere)} as well: change its selectors, or release "
            "these nodes as well"
        )
    return ""


class _Index:
    """What there is, by the card that it is on, and layouts by the nodes that they speak of."""

    def __init__(self, there: Iterable[Target]) -> None:
        self.by_card: dict[tuple[str, str], list[Target]] = defaultdict(list)
        self.layouts: dict[str, list[Target]] = defaultdict(list)
        for target in there:
            if target.stage is Stage.LAYOUT:
                for node in target.node.split():
                    self.layouts[node].append(target)
            else:
                self.by_card[target.node, target.card].append(target)

    def before(self, target: Target) -> list[Target]:
        """What has to go first."""
        if target.stage is Stage.LAYOUT:
            return []
        same_card = self.by_card[target.node, target.card]
        earlier = [one for one in same_card if one.stage < target.stage]
        return [*self.layouts.get(target.node, ()), *earlier]


def _after(first: Sequence[Target]) -> str:
    names = ", ".join(one.title for one in first[:_NAMED])
    more = f" and {len(first) - _NAMED} more" if len(first) > _NAMED else ""
    return f"waits for {names}{more}"


def _waiting(target: Target, silent: Collection[str]) -> str:
    if target.node in silent:
        return f"no agent runs on node {target.node}; only that agent releases the device"
    if target.holder:
        return f"it is allocated to {target.holder}: stop that first"
    return target.words or "being released"
