"""Kernel modules."""

from __future__ import annotations

import errno
import re

from laneway.core.plan import LoadModule
from laneway.core.programs import MODPROBE
from laneway.host.command import run
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.operation import Limits, Operation, Seen, State

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,60}")


async def module_state(hardware: Hardware, step: LoadModule) -> Seen:
    name = _name(step)
    # A module that is built in need not be in /sys/module; the driver that it brings is there.
    places = (
        f"/sys/module/{name.replace('-', '_')}",
        f"/sys/bus/pci/drivers/{name}",
    )
    loaded = any(map(hardware.host.exists, places))
    return Seen(State.AFTER, "loaded") if loaded else Seen(State.BEFORE, "not loaded")


async def load(hardware: Hardware, step: LoadModule, limits: Limits) -> None:
    ended = await run(hardware.executor, (MODPROBE, _name(step)), limits.command_seconds)
    if ended.status != 0:
        raise ended.error()


def _name(step: LoadModule) -> str:
    """The module's name; nothing that a program could take for an option, nor for a path."""
    if _NAME.fullmatch(step.module) is None:
        raise OSError(errno.EINVAL, f"{step.module[:60]!r} is not the name of a kernel module")
    return step.module


OPERATIONS: dict[type, Operation] = {LoadModule: Operation(module_state, load)}
