"""Reads and writes of sysfs as operations make them.

A write may wait in the kernel for as long as a process holds the device. A plan waits for it for a
limited time only; the write itself is left to end when it can, and until it has, nothing more is
written to its device, for the kernel would have two orders and it would not be known what became of
either. The mark is gone with this process; then the users of the device tell.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import posixpath
from weakref import WeakKeyDictionary

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    LoadModule,
    SetBootArguments,
    SetConsole,
    SetFramebuffer,
    SetNodeOwner,
    Step,
    WriteConfiguration,
)
from laneway.host.attributes import clean
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.operation import Limits
from laneway.host.port import Host

log = logging.getLogger(__name__)

_LEFT_BEHIND_SECONDS = 7 * 86_400.0
"""After this a write that was left behind is not waited for any more, not even for its mark."""

_waiting: WeakKeyDictionary[Host, dict[str, asyncio.Task[None]]] = WeakKeyDictionary()
"""Writes that have not come back from the kernel, by device."""


def function_home(function: PciAddress) -> str:
    return f"/sys/bus/pci/devices/{function}"


def component(name: str) -> str:
    """A name that becomes one part of a path. Raises OSError for anything else.

    Names in plans come from listings and links of sysfs; this is the last door, not the first.
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise OSError(errno.EINVAL, f"{name[:60]!r} cannot be a part of a path")
    return name


def text(hardware: Hardware, path: str) -> str:
    """Content of an attribute."""
    return clean(hardware.host.read(path))


def link(hardware: Hardware, path: str) -> str:
    """Last part of a link's target, empty when there is no such link."""
    try:
        return posixpath.basename(hardware.host.readlink(path))
    except FileNotFoundError:
        return ""


def driver_of(hardware: Hardware, function: PciAddress) -> str:
    return link(hardware, f"{function_home(function)}/driver")


async def write(hardware: Hardware, device: object, path: str, data: str, limits: Limits) -> None:
    """One write to an attribute of a device; ETIMEDOUT when the kernel does not come back."""
    waiting = _waiting.setdefault(hardware.host, {})
    key = str(device)
    if key in waiting:
        raise OSError(errno.EBUSY, "an earlier write still waits in the kernel; the device is held")
    task = asyncio.ensure_future(hardware.host.write_within(path, data, _LEFT_BEHIND_SECONDS))
    waiting[key] = task
    task.add_done_callback(lambda ended: _returned(waiting, key, ended))
    done, _ = await asyncio.wait({task}, timeout=limits.write_seconds)
    if not done:
        task.add_done_callback(lambda _: log.warning("the write left behind has ended: %s", path))
        raise OSError(
            errno.ETIMEDOUT,
            f"no answer from the kernel within {limits.write_seconds:g} s; the device is held",
        )
    task.result()


def is_there(hardware: Hardware, step: Step) -> bool:
    """Whether the device that a step changes is still there."""
    match step:
        case LoadModule() | SetConsole() | SetFramebuffer():
            return True
        case SetBootArguments() | WriteConfiguration():
            return True
        case SetNodeOwner(port):
            return hardware.host.exists(f"/sys/bus/usb/devices/{component(port)}")
        case _:
            return hardware.host.exists(function_home(step.function))


def is_waiting(hardware: Hardware, device: object) -> bool:
    """Whether a write to a device has not come back: what reads it may wait as well."""
    return str(device) in _waiting.get(hardware.host, {})


def _returned(waiting: dict[str, asyncio.Task[None]], key: str, task: asyncio.Task[None]) -> None:
    waiting.pop(key, None)
    if not task.cancelled():
        task.exception()  # read, so that asyncio does not report it
