"""Workers that drive a reconcile function from a queue.

A reconcile that returns is done; one that raises is logged with its reason and tried again with
back-off; one that returns `Retry` is tried again when it says. No failure of one key ends a worker.

Where the server has said when to come back, that is waited for. An outage is no fault of the key:
it is tried again as often as the caches ask, so that no work is left for long once it is over.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from laneway.kube.errors import KubeError, is_outage, pause_after
from laneway.kube.queue import K, ShutDownError, WorkQueue

log = logging.getLogger(__name__)

OUTAGE_SECONDS = 30.0
"""How long at most a key waits because of an outage: as long as an informer."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not finished, and not a failure: look again in so many seconds."""

    after: float


Reconcile = Callable[[K], Awaitable[Retry | None]]


async def run_workers(queue: WorkQueue[K], reconcile: Reconcile[K], workers: int = 1) -> None:
    """Work until the queue is shut down and empty, or until cancelled."""
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile))


async def _work(queue: WorkQueue[K], reconcile: Reconcile[K]) -> None:
    while True:
        try:
            key = await queue.get()
        except ShutDownError:
            return
        try:
            result = await reconcile(key)
        except KubeError as error:
            cap = OUTAGE_SECONDS if is_outage(error) else math.inf
            delay = queue.retry(key, least=pause_after(error, 0.0), cap=cap)
            log.warning("%s: %s; retrying in %.1f s", key, error, delay)
        except Exception:
            delay = queue.retry(key)
            log.exception("%s: reconciling failed; retrying in %.1f s", key, delay)
        else:
            queue.forget(key)
            if result is not None:
                queue.add_after(key, result.after)
        finally:
            queue.done(key)
