"""Virtual functions of cards: by the kernel's attribute, or by NVIDIA's program.

How many there are is counted by the `virtfn` links: while VFs come or go, reading `sriov_numvfs`
waits for that to end, for ever where a VM holds one of them.
"""

from __future__ import annotations

import asyncio
import errno
import re

from laneway.core.pci import PciAddress
from laneway.core.plan import SetAutoprobe, SetVfCount, SwitchGpuVfs
from laneway.core.programs import SRIOV_MANAGE
from laneway.host.command import run
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.access import function_home, link, text, write
from laneway.host.plans.operations.operation import (
    Limits,
    Operation,
    Seen,
    State,
    compare,
    gone,
)

_VIRTFN = re.compile(r"virtfn[0-9]+")
_UNBIND_LOCK = "unbindLock"
"""In what `sriov-manage` says when a client of the driver's keeps the card: the only failure that
passes by itself."""


def vf_links(hardware: Hardware, function: PciAddress) -> list[str]:
    """Paths of the links to a function's VFs. Raises OSError when it is not there."""
    home = function_home(function)
    return [f"{home}/{name}" for name in hardware.host.names(home) if _VIRTFN.fullmatch(name)]


def drivers_of_vfs(hardware: Hardware, function: PciAddress) -> list[str]:
    """The driver of every VF, empty for one that has none."""
    return [link(hardware, f"{vf}/driver") for vf in vf_links(hardware, function)]


async def autoprobe_state(hardware: Hardware, step: SetAutoprobe) -> Seen:
    try:
        value = text(hardware, f"{function_home(step.function)}/sriov_drivers_autoprobe")
    except FileNotFoundError:
        return gone(step.function)
    return compare(value, before=_flag(not step.enabled), after=_flag(step.enabled))


async def autoprobe(hardware: Hardware, step: SetAutoprobe, limits: Limits) -> None:
    path = f"{function_home(step.function)}/sriov_drivers_autoprobe"
    await write(hardware, step.function, path, _flag(step.enabled), limits)


def _flag(on: bool) -> str:
    return "1" if on else "0"


async def count_state(hardware: Hardware, step: SetVfCount) -> Seen:
    try:
        count = len(vf_links(hardware, step.function))
    except FileNotFoundError:
        return gone(step.function)
    return compare(str(count), before=str(step.before), after=str(step.count))


async def set_count(hardware: Hardware, step: SetVfCount, limits: Limits) -> None:
    path = f"{function_home(step.function)}/sriov_numvfs"
    await write(hardware, step.function, path, str(step.count), limits)


async def switch_state(hardware: Hardware, step: SwitchGpuVfs) -> Seen:
    try:
        drivers = drivers_of_vfs(hardware, step.function)
    except FileNotFoundError:
        return gone(step.function)
    before, after = (0, step.count) if step.enabled else (step.count, 0)
    seen = compare(str(len(drivers)), before=str(before), after=str(after))
    if seen.state is State.AFTER and not all(drivers):
        return Seen(State.OTHER, f"{len(drivers)}, not all with a driver")
    return seen


async def switch(hardware: Hardware, step: SwitchGpuVfs, limits: Limits) -> None:
    argv = (SRIOV_MANAGE, "-e" if step.enabled else "-d", str(step.function))
    for attempt in range(1, limits.unbind_lock_tries + 1):
        ended = await run(hardware.executor, argv, limits.command_seconds)
        if ended.status == 0:
            return
        if _UNBIND_LOCK not in ended.output or attempt == limits.unbind_lock_tries:
            raise ended.error(errno.EBUSY if _UNBIND_LOCK in ended.output else errno.EIO)
        await asyncio.sleep(limits.unbind_lock_seconds)


OPERATIONS: dict[type, Operation] = {
    SetAutoprobe: Operation(autoprobe_state, autoprobe),
    SetVfCount: Operation(count_state, set_count),
    SwitchGpuVfs: Operation(switch_state, switch),
}
