"""What each kind of step is made of: reading where hardware is, and doing it once.

Reading comes apart from doing because three users need it alone: the guard before a write, the
wait for effects that come later than the write, and the recovery of a plan that was interrupted.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from laneway.host.hardware import Hardware


class State(enum.Enum):
    """Where hardware is in respect of one step."""

    BEFORE = "before"
    """As the step expects it before it is done."""
    AFTER = "after"
    """As the step is to leave it."""
    EITHER = "either"
    """The step leaves no trace that could tell; to do it twice does no harm."""
    OTHER = "other"
    """Neither: half way, or something else has changed it, or the device is gone."""


class Seen(NamedTuple):
    """Where hardware is, and the value that says so, for the audit record."""

    state: State
    value: str


class Limits(NamedTuple):
    """How long things may take, and how often they are tried."""

    write_seconds: float = 30.0
    """One write. Creating a vGPU takes the driver a few seconds at the most; a removal that blocks
    longer is held by a virtual machine."""
    settle_seconds: float = 10.0
    """Effects that come after the write has returned, such as drivers of new VFs."""
    aftermath_seconds: float = 3.0
    """What the kernel may still be doing for a process that was killed."""
    poll_seconds: float = 0.02
    command_seconds: float = 180.0
    """`sriov-manage` waits for every VF of the card."""
    unbind_lock_tries: int = 5
    unbind_lock_seconds: float = 1.0
    """Between tries while the driver's clients keep its unbind lock."""


async def as_planned(_hardware: Hardware, step: Any) -> Any:
    """A step that says itself all that is needed to do it."""
    return step


class Operation(NamedTuple):
    """One kind of step. All three raise OSError, with words in `strerror`."""

    state: Callable[[Hardware, Any], Awaitable[Seen]]
    """Only reads. A device that is gone is OTHER, not an error."""
    perform: Callable[[Hardware, Any, Limits], Awaitable[None]]
    """Does it once, whatever hardware looks like; success is decided by `state` afterwards."""
    resolve: Callable[[Hardware, Any], Awaitable[Any]] = as_planned
    """The step with ids that only the driver knows looked up now. The journal keeps this form."""


def compare(value: str, *, before: str, after: str) -> Seen:
    """What a value that was read says about a step between two values."""
    if value == after:
        return Seen(State.AFTER, value)
    return Seen(State.BEFORE if value == before else State.OTHER, value)


def gone(what: object) -> Seen:
    """The device is not there."""
    return Seen(State.OTHER, f"{what} does not exist")
