"""Carry out plans on a host, step by step, and believe only what is read back.

A write may block in the kernel for as long as somebody holds the device, so each runs in a thread
of its own that is abandoned after a limit: nothing else waits for it, and until it has come back
nothing more is written to its function. When a step fails, the steps before it are undone in
reverse order, and the failure says what could not be undone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import threading
from weakref import WeakKeyDictionary

from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, SetVgpuType, Step, describe, undo
from laneway.core.refusals import WriteFailed
from laneway.host import vendor_vfio
from laneway.host.attributes import Attributes
from laneway.host.port import Host

log = logging.getLogger(__name__)

WRITE_SECONDS = 30.0
"""How long one write may take. Creating a vGPU takes the driver a few seconds at the most; a
removal that blocks longer is held by a virtual machine."""

_writing: WeakKeyDictionary[Host, set[PciAddress]] = WeakKeyDictionary()
"""Functions whose last write has not come back from the kernel."""


class StepError(Exception):
    """A plan did not complete; `refusal` says which step failed and why."""

    def __init__(self, refusal: WriteFailed, *, undone: bool) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal
        self.undone = undone
        """Whether steps had been done, and were taken back: trying again disturbs what runs."""


async def execute(host: Host, plan: Plan, *, write_seconds: float = WRITE_SECONDS) -> None:
    """Do every step, or undo those that were done and raise StepError."""
    done: list[Step] = []
    for step in plan.steps:
        try:
            await _perform(host, step, write_seconds)
        except OSError as error:
            left_over = await _undo(host, done, write_seconds)
            refusal = WriteFailed(describe(step), _words(error), left_over)
            raise StepError(refusal, undone=bool(done)) from error
        done.append(step)
        log.info("did: %s", describe(step))


async def _undo(host: Host, done: list[Step], write_seconds: float) -> tuple[str, ...]:
    left_over = []
    for step in reversed(done):
        try:
            await _perform(host, undo(step), write_seconds)
        except OSError as error:
            log.warning("could not undo: %s: %s", describe(step), _words(error))
            left_over.append(describe(step))
    return tuple(left_over)


async def _perform(host: Host, step: Step, seconds: float) -> None:
    """Do a step in a thread of its own; raise ETIMEDOUT and leave it behind when it blocks."""
    writing = _writing.setdefault(host, set())
    if step.function in writing:
        raise OSError(errno.EBUSY, "an earlier write still waits in the kernel; the device is held")
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if finished.done():
            return
        if error is None:
            finished.set_result(None)
        else:
            finished.set_exception(error)

    def run() -> None:
        error = None
        try:
            _carry_out(host, step)
        except Exception as raised:  # noqa: BLE001 - handed to the loop, whatever it is
            error = raised
        writing.discard(step.function)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(settle, error)

    writing.add(step.function)
    # A daemon thread: a write that never returns must not keep the process from ending.
    threading.Thread(target=run, name="write", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await finished
    except TimeoutError:
        raise OSError(
            errno.ETIMEDOUT, f"no answer from the kernel within {seconds:g} s; the device is held"
        ) from None


def _carry_out(host: Host, step: Step) -> None:
    if isinstance(step, SetVgpuType) and not step.type_id:
        step = SetVgpuType(step.function, _type_id(host, step), step.before, step.profile)
    host.write(*_write_of(step))
    try:
        true_now = _verify(host, step)
    except FileNotFoundError:
        true_now = False
    if not true_now:
        raise OSError(errno.EIO, "the driver accepted the write, but nothing changed")


def _type_id(host: Host, step: SetVgpuType) -> str:
    """What the driver calls the step's profile now."""
    attributes = Attributes(host, _function(step.function), str(step.function))
    _, creatable = vendor_vfio.read_types(attributes, {})
    found = next((kind.id for kind in creatable if kind.name == step.profile), None)
    if found is None:
        raise OSError(errno.ENOSPC, "the driver leaves no room for it")
    return found


def _function(address: PciAddress) -> str:
    return f"/sys/bus/pci/devices/{address}"


def _write_of(step: Step) -> tuple[str, str]:
    match step:
        case CreateMdev(function, type_id, _, uuid):
            return f"{_function(function)}/mdev_supported_types/{type_id}/create", uuid
        case RemoveMdev(_, _, _, uuid):
            return f"/sys/bus/mdev/devices/{uuid}/remove", "1"
        case SetVgpuType(function, type_id, _, _):
            return f"{_function(function)}/nvidia/current_vgpu_type", type_id


def _verify(host: Host, step: Step) -> bool:
    match step:
        case CreateMdev(function, type_id, _, uuid):
            target = host.readlink(f"{_function(function)}/{uuid}/mdev_type")
            return target.rsplit("/", 1)[-1] == type_id
        case RemoveMdev(_, _, _, uuid):
            return not host.exists(f"/sys/bus/mdev/devices/{uuid}")
        case SetVgpuType(function, type_id, _, _):
            path = f"{_function(function)}/nvidia/current_vgpu_type"
            return host.read(path).decode("ascii", "replace").strip() == type_id


def _words(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "")
    text = error.strerror or os.strerror(error.errno or errno.EIO)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{text} ({name})" if name else f"{where}{text}"
