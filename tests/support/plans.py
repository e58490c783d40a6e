"""What tests need to have plans carried out: a node's hardware, and hosts between them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Entry
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.state import StateFolder
from laneway.sim.pci_core import LATE_DRIVER

BOOT = "00000000-0000-4000-8000-00000000b007"
BRIEF = Limits(settle_seconds=0.0, aftermath_seconds=0.0, poll_seconds=0.0, unbind_lock_seconds=0.0)
"""For hosts on which everything that a write does is done when it returns."""


def hardware_of(host: Any, folder: Path, *, boot: str = BOOT) -> Hardware:
    """A node as plans see it, with its state in a folder."""
    return Hardware(host, host, StateFolder(str(folder), boot))


def await_late_drivers() -> None:
    """Wait for what probes asynchronously on simulated hosts: no step of a plan need do so."""
    for thread in threading.enumerate():
        if thread.name == LATE_DRIVER:
            thread.join(60)


async def in_thread(write: Callable[[str, str], None], path: str, data: str) -> None:
    """Make a write that may block; its thread is not waited for when the test is over."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if not written.done():
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    def run() -> None:
        error = None
        try:
            write(path, data)
        except Exception as raised:  # noqa: BLE001 - handed to the loop, whatever it is
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="write", daemon=True).start()
    await written


def audited(hardware: Hardware) -> list[Entry]:
    """The audit record."""
    lines = Path(hardware.state.audit).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines]
