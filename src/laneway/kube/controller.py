"""Workers that drive a reconcile function from a queue.

A reconcile that returns is done; one that raises is logged with its reason and tried again with
back-off; one that returns `Retry` is tried again when it says. No failure of one key ends a worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from laneway.kube.errors import KubeError
from laneway.kube.queue import K, ShutDownError, WorkQueue

log = logging.getLogger(__name__)


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
            delay = queue.retry(key)
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
