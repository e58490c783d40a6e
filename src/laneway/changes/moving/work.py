"""What a move works with: the cluster as it is seen, and waiting until it is seen otherwise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from laneway.api import PCIDeviceClaim, VGPUDevice
from laneway.changes import watching
from laneway.changes.errors import ChangeError
from laneway.changes.listening import Listener
from laneway.changes.trial import refusal_words
from laneway.changes.writing import Outcome, Waiting
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.moves import Move
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError, UnreachableError
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import KubeObject, Resource, served
from laneway.views.gpus import Gpu

_SETTLE_SECONDS = 0.2
"""In which changes that belong together come in."""
_LOOK_SECONDS = 10.0
"""Until the next look where nothing is told: a user may be allowed to list and not to watch."""
_WATCHED: tuple[Resource[KubeObject], ...] = (
    served(VGPUDevice),
    served(PCIDeviceClaim),
    INSTANCES,
    VIRTUAL_MACHINES,
)


class Seen(NamedTuple):
    """The cluster at one moment."""

    fleet: Fleet
    gpus: Mapping[str, Gpu]
    """By name."""

    def gpu(self, name: str) -> Gpu:
        """Raises ChangeError where it is gone."""
        if name not in self.gpus:
            raise ChangeError(f"GPU {name} is not in the cluster any more")
        return self.gpus[name]


class MovesListener(Listener):
    """Ignores also which move is made."""

    def begun(self, move: Move) -> None:
        """A move begins."""

    def moved(self, move: Move) -> None:
        """It is done, as the cluster says."""


class Work(NamedTuple):
    """What every part of a move needs."""

    client: Client
    look: Callable[[], Awaitable[Seen]]
    """The whole cluster as it is now."""
    seconds: int
    """For each move, and again to undo it."""
    listener: MovesListener


class Forwarding(Listener):
    """Tells how far it is; that a wait was interrupted is told by what undoes the move."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def progress(self, words: str) -> None:
        self._listener.progress(words)


def waiting(work: Work, gpu: str) -> Waiting:
    """How to wait for the answer to a change of a GPU: the time limit of the move ends first."""

    async def look() -> Gpu:
        return (await work.look()).gpu(gpu)

    return Waiting(2 * work.seconds, when_possible=False, look=look)


def judge(outcome: Outcome, what: str) -> None:
    """Raises ChangeError where an agent refuses something."""
    if outcome.state != "done":
        words = refusal_words(outcome.answer) or outcome.words
        raise ChangeError(f"the agent refuses {what}: {words}")


async def until(work: Work, waits_for: Callable[[Seen], str]) -> Seen:
    """Look again after each change until nothing is waited for any more.

    `waits_for`: what is waited for, in words; empty: nothing.
    """
    changed = asyncio.Event()
    watches = [asyncio.create_task(_watch(work.client, one, changed)) for one in _WATCHED]
    try:
        while True:
            changed.clear()
            try:
                seen = await work.look()
            except UnreachableError as error:
                work.listener.progress(f"{error}; asking again")
                await asyncio.sleep(watching.AGAIN_SECONDS)
                continue
            if not (words := waits_for(seen)):
                return seen
            work.listener.progress(words)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(client: Client, resource: Resource[Any], changed: asyncio.Event) -> None:
    """Set the event at every change, and while a server that was away may have had some."""

    def away(_: UnreachableError) -> None:
        changed.set()

    with contextlib.suppress(ForbiddenError, NotFoundError):
        async with contextlib.aclosing(watching.states(client, resource, away)) as found:
            async for _ in found:
                changed.set()
