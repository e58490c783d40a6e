"""Notices what drivers change without a kernel event: vGPUs and lists of profiles.

Vendor VFIO announces neither a vGPU that is made nor one that is removed, and no framework tells
when the lists of profiles shrink or grow. So what is needed to notice it is read twice a second, on
a server on which that takes long less often, and compared with what the last inventory says. Only a
difference costs a scan of that GPU. One that
the scan does not explain is scanned for again after a pause that grows: the scan may have come
while the GPU was as it had been before.

A GPU is left alone while a plan is carried out on it, because that plan ends with a scan, and may
hold the driver's locks meanwhile. A driver that does not answer for any other reason keeps one
thread waiting, which is left behind: neither the agent nor the other GPUs wait with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.observing.observer import Observer
from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress
from laneway.host.port import Host
from laneway.host.vgpu import read_again

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
REST_FACTOR = 100.0
"""Pause after a look, in CPU seconds of that look: it may cost a hundredth of one core."""
PATIENCE_SECONDS = 5.0
"""How long all GPUs may take to answer until the one that is being read is left behind."""

UNEXPLAINED_SECONDS = 2.0
"""How soon to scan again for a difference that a scan did not explain; doubled each time."""
LONGEST_SECONDS = 300.0
"""The longest of these pauses."""

Functions = tuple[VgpuFunction, ...]


class _Reported(NamedTuple):
    """A difference for which a scan was wanted."""

    difference: tuple[Functions, Functions]
    """What was known, and what was seen."""
    pause: float
    again: float
    """When a scan is wanted for it once more, by the loop's clock."""


class SilentChanges:
    """Looks at the GPUs of one host again and again. Run `run` in a task."""

    def __init__(
        self,
        host: Host,
        observer: Observer,
        locks: GpuLocks,
        *,
        pause: float = PAUSE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        unexplained: float = UNEXPLAINED_SECONDS,
    ) -> None:
        self._host = host
        self._observer = observer
        self._locks = locks
        self._pause = pause
        self._patience = patience
        self._unexplained = unexplained
        self._used = 0.0
        """CPU seconds of the last look that ended."""
        self._waiting: set[PciAddress] = set()
        """GPUs whose driver has not answered for long, until it does."""
        self._reported: dict[PciAddress, _Reported] = {}

    async def run(self) -> None:
        """Look for ever; the first scan must be complete."""
        while True:
            await asyncio.sleep(max(self._pause, REST_FACTOR * self._used))
            await self.look()

    async def look(self) -> None:
        """Look once at every GPU that can be looked at, and want a scan where one has changed."""
        inventory = self._observer.inventory
        if inventory is None:
            return
        known = {
            gpu: vgpus
            for gpu, vgpus in inventory.by_gpu().items()
            if gpu not in self._waiting and not self._locks.busy(gpu)
        }
        if not known:
            return
        seen = await self._read(known)
        if self._observer.inventory is not inventory:
            return  # What was read may be older than what is known by now.
        for gpu, vgpus in seen.items():
            if vgpus == known[gpu]:
                self._reported.pop(gpu, None)
            elif not self._locks.busy(gpu) and self._is_news(gpu, (known[gpu], vgpus)):
                log.debug("the vGPUs of %s have changed without an event", gpu)
                self._observer.want(gpu)

    def _is_news(self, gpu: PciAddress, difference: tuple[Functions, Functions]) -> bool:
        """Whether a difference is to be scanned for now; remembers that it was."""
        now, reported = asyncio.get_running_loop().time(), self._reported.get(gpu)
        pause = self._unexplained
        if reported is not None and reported.difference == difference:
            if now < reported.again:
                return False
            pause = min(reported.pause * 2, LONGEST_SECONDS)
        self._reported[gpu] = _Reported(difference, pause, now + pause)
        return True

    async def _read(self, known: Mapping[PciAddress, Functions]) -> dict[PciAddress, Functions]:
        """The functions of each GPU as they are; a GPU that keeps us waiting is left out."""
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()
        seen: dict[PciAddress, Functions] = {}
        reading: list[PciAddress] = []
        left: set[PciAddress] = set()

        def end(error: BaseException | None) -> None:
            self._waiting -= left
            if not finished.done():
                finished.set_result(None) if error is None else finished.set_exception(error)

        def read() -> None:
            error: BaseException | None = None
            began = time.thread_time()
            try:
                for gpu, vgpus in known.items():
                    reading[:] = [gpu]
                    seen[gpu] = read_again(self._host, vgpus)
                    if left:
                        break
            except BaseException as raised:  # noqa: BLE001 - handed to the loop, whatever it is
                error = raised
            self._used = time.thread_time() - began
            with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits any more
                loop.call_soon_threadsafe(end, error)

        # A daemon thread: one that waits in the kernel must not keep the process from ending.
        threading.Thread(target=read, name="silent changes", daemon=True).start()
        try:
            async with asyncio.timeout(self._patience):
                await finished
        except TimeoutError:
            left.update(reading)
            self._waiting |= left
            log.warning("the driver does not answer about the vGPUs of %s", *left)
        return dict(seen)
