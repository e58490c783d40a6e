"""A simulated host: the host port over files in memory.

It can be read from one thread while another writes, as a real kernel can: every access holds one
lock, so each sees the machine between two writes and never within one. What a write or a hot-plug
sets off is announced to everyone who listens, on their own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from laneway.core.uevent import OVERFLOW, Uevent
from laneway.sim.devices import Devices
from laneway.sim.driver import VgpuDriver
from laneway.sim.dump import Block
from laneway.sim.tree import Tree

_MAX_PENDING = 10_000


class SimulatedHost:
    """One node. Implements the host port; hot-plug comes on top."""

    def __init__(self, name: str, blocks: Iterable[Block], files: Mapping[str, bytes]) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._listeners: list[_Listener] = []
        self._tree = Tree()
        self._devices = Devices(self._tree, self._emit)
        self._driver = VgpuDriver(self._devices)
        self._record: Callable[[str, str, int], None] = _forget
        blocks = list(blocks)
        self._devices.load(blocks)
        for path, content in files.items():
            self._tree.put(path, content)
        self._tree.put("/proc/self", "1")
        self._tree.put("/proc/net", "self/net")
        self._tree.put("/proc/sys/kernel/hostname", f"{name}\n".encode())
        self._driver.probe(blocks)

    def read(self, path: str) -> bytes:
        with self._lock:
            return self._tree.read(path)

    def names(self, path: str) -> list[str]:
        with self._lock:
            return self._tree.names(path)

    def readlink(self, path: str) -> str:
        with self._lock:
            return self._tree.readlink(path)

    def resolve(self, path: str) -> str:
        with self._lock:
            return self._tree.resolve(path)

    def exists(self, path: str) -> bool:
        with self._lock:
            return self._tree.exists(path)

    def write(self, path: str, data: str) -> None:
        with self._lock:
            store = self._tree.store(path)
            if not data:
                return  # the kernel does not call an attribute for a write of nothing
            try:
                store(data)
            except OSError as error:
                self._record(path, data, error.errno or 0)
                raise OSError(error.errno, error.strerror, path) from None
            self._record(path, data, 0)

    def record_writes(self, record: Callable[[str, str, int], None]) -> None:
        """Have every write that reached a driver reported with its errno, 0 for success.

        Refused ones too: a driver may refuse a write and change the device all the same.
        """
        self._record = record

    @asynccontextmanager
    async def uevents(self) -> AsyncIterator[AsyncIterator[Uevent]]:
        listener = _Listener()
        with self._lock:
            self._listeners.append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def unplug(self, path: str) -> list[Block]:
        """Remove a device, given by any of its paths, with all below it and, of a PF, its VFs.

        Returns what `plug` brings back. vGPUs are not in it: the hardware forgets them.
        """
        with self._lock:
            home = self._tree.resolve(path).removeprefix("/sys")
            functions = [
                self._tree.resolve(f"/sys{home}/{name}").removeprefix("/sys")
                for name in self._tree.names(f"/sys{home}")
                if name.startswith("virtfn")
            ]
            paths = [inner for root in (*functions, home) for inner in self._devices.below(root)]
            gone = [self._devices[inner] for inner in paths]
            for inner in paths:
                self._driver.remove(inner)
        return [block for block in reversed(gone) if block.properties.get("SUBSYSTEM") != "mdev"]

    def plug(self, blocks: Iterable[Block]) -> None:
        """Add devices, parents first, while the host runs."""
        blocks = list(blocks)
        with self._lock:
            for block in blocks:
                self._devices.add(block)
            self._driver.probe(blocks)

    def _emit(self, event: Uevent) -> None:
        for listener in self._listeners:
            listener.put(event)


def _forget(path: str, data: str, error: int) -> None:
    """Writes to a host that is not kept are not recorded."""


class _Listener:
    """Events on their way from any thread to the event loop that waits for them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Uevent] = asyncio.Queue()

    def put(self, event: Uevent) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended without leaving the context
            self._loop.call_soon_threadsafe(self._arrive, event)

    def _arrive(self, event: Uevent) -> None:
        if self._queue.qsize() >= _MAX_PENDING:
            while not self._queue.empty():
                self._queue.get_nowait()
            event = OVERFLOW
        self._queue.put_nowait(event)

    def __aiter__(self) -> _Listener:
        return self

    async def __anext__(self) -> Uevent:
        return await self._queue.get()
