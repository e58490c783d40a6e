"""The lock of a simulated host, and the kernel's own locks on its devices.

Every access to the host holds the one lock, so it sees the machine between two writes. A write that
has to wait, for a process with the device open or for a device's lock, releases it: the rest of the
machine goes on meanwhile, and only what needs the same device waits too, as on a real kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Locks:
    """Call everything with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._owners: dict[str, int] = {}
        self.waiting: set[int] = set()
        """The threads that wait in the kernel now."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Let others go on until something is true."""
        if ready():
            return
        me = threading.get_ident()
        self.waiting.add(me)
        self.notify()
        self._changed.wait_for(ready)
        self.waiting.discard(me)

    def pause(self, seconds: float) -> None:
        """Let others go on for a while."""
        if seconds:
            self._changed.wait_for(lambda: False, seconds)

    def notify(self) -> None:
        """Something changed that may be waited for."""
        self._changed.notify_all()

    def wait_for_device(self, name: str) -> None:
        """Wait until no other thread has the lock on a device."""
        me = threading.get_ident()
        self.wait(lambda: self._owners.get(name, me) == me)

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        """Hold the kernel's lock on a device; a thread that has it already goes on."""
        self.wait_for_device(name)
        outer = self._owners.get(name)
        self._owners[name] = threading.get_ident()
        try:
            yield
        finally:
            if outer is None:
                del self._owners[name]
                self.notify()
