"""Work that is done only while this manager leads, from a queue of keys.

While it stands by, changes are only seen by the caches. The moment it leads, everything is looked
at once, so that whatever the last leader left undone is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic

from laneway.kube.controller import Retry, run_workers
from laneway.kube.informer import Informer
from laneway.kube.queue import K, WorkQueue
from laneway.kube.resource import KubeObject


class Leading(ABC, Generic[K]):
    """A part of the manager."""

    workers = 1
    needs: tuple[Informer[KubeObject], ...] = ()
    """Caches without which nothing can be decided."""

    def __init__(self) -> None:
        self.queue: WorkQueue[K] = WorkQueue()
        self.leading = False

    def ask(self, keys: Iterable[K]) -> None:
        """Have these looked at, if it is for us to do so."""
        if self.leading:
            for key in keys:
                self.queue.add(key)

    @abstractmethod
    def everything(self) -> Iterable[K]:
        """What there is to look at."""

    @abstractmethod
    async def reconcile(self, key: K) -> Retry | None:
        """Bring one of them to what it should be."""

    async def run(self) -> None:
        """Lead until cancelled."""
        for informer in self.needs:
            await informer.synced.wait()
        self.leading = True
        try:
            self.ask(self.everything())
            await run_workers(self.queue, self.reconcile, self.workers)
        finally:
            self.leading = False
