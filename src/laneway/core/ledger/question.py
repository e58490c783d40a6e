"""What the ledger is asked, and what it answers.

A question is about VMs that are all alike. Where they take the place of others, the answer
counts differences only: a VM that stays needs nothing new, and what the others have is
there for the new ones as soon as they are gone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.refusals import Refusal


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """VMs that are to start."""

    resources: Mapping[str, int]
    """What each of them requests, all on one node."""
    vms: int = 1
    """How many there are to be in the end, those included that stay as they are."""
    nodes: tuple[str, ...] = ()
    """Where they may be; empty: anywhere."""
    selector: Mapping[str, str] = {}
    """Labels that their node must have."""
    replacing: tuple[Consumer, ...] = ()
    """The VMs that exist, whose place they take."""
    surge: int = 0
    """How many more than `VMs` may run while old ones are replaced."""
    unavailable: int | None = None
    """How many less. None: all of the old ones end first, or none where there is a surge."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether they can, where, and if not why."""

    vms: int
    """How many there are to be."""
    kept: int
    """So many of them stay as they are."""
    started: int
    """So many of the others can start."""
    room: tuple[tuple[str, int], ...] = ()
    """How many could start on each node, those that can be replaced there being gone."""
    change: tuple[tuple[str, int], ...] = ()
    """How many devices more, or less, are requested than by what is replaced."""
    refusals: tuple[Refusal, ...] = ()
    """Why not all of them can start; empty when they can."""

    @property
    def yes(self) -> bool:
        return not self.refusals


def selected(ledger: Ledger, namespace: str, labels: Mapping[str, str]) -> tuple[Consumer, ...]:
    """Everybody in a namespace who has all of these labels: the VMs of a pool."""
    return tuple(
        consumer
        for consumer, demand in ledger.demands.items()
        if consumer.namespace == namespace and labels.items() <= demand.labels.items()
    )
