"""The node's record of its driver, and that only one toolkit works on a node at a time.

The record is replaced whole at every change, so a container that is killed leaves what was true
then. A record that cannot be read is begun again: what is in the kernel is looked at anyway.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.state import Driver, State, began
from laneway.host.plans import files

log = logging.getLogger(__name__)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Record:
    """The state of this node's driver, on its disk."""

    def __init__(self, path: str, clock: Callable[[], str] = now) -> None:
        self._path = path
        self._clock = clock
        self.state = files.salvaged(path, State, State())

    def begin(self, wanted: Driver, boot: str, kernel: str) -> None:
        self._write(began(self.state, wanted, boot, kernel))

    def change(self, **fields: Any) -> None:
        """Change some fields."""
        self._write(replace(self.state, **fields))

    def note(self, **fields: Any) -> None:
        """The same for what people read: a driver that serves goes on where the disk is full."""
        try:
            self.change(**fields)
        except ToolkitError as error:
            if self.state.serving is None:
                raise
            log.error("%s", error)  # noqa: TRY400 - the reason is in it

    def _write(self, state: State) -> None:
        moment = self._clock()
        since = self.state.since if state.stage == self.state.stage else moment
        self.state = replace(state, since=since or moment, changed=moment)
        data = msgspec.json.format(msgspec.json.encode(self.state), indent=2)
        try:
            files.replace(self._path, data + b"\n")
        except OSError as error:
            raise ToolkitError(failure.no_room(error, self._path)) from None


def read_state(path: str) -> State | None:
    """What the record says; None where there is none. Raises files.StateError."""
    return files.read(path, State)


@contextlib.contextmanager
def alone(path: str) -> Iterator[None]:
    """Hold the node's lock; it goes with the process. Raises ToolkitError when another has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolkitError(failure.another_runs(path)) from None
        yield
    finally:
        os.close(fd)
