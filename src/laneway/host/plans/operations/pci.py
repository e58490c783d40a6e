"""Drivers of PCI functions, and resets.

Which driver a function has is read from its `driver` link. `drivers_probe` reports success also
when probing failed, so where a driver is named it is asked by `bind`, which tells the errno.
"""

from __future__ import annotations

import errno
import logging

from laneway.core.plan import OverrideDriver, Probe, ResetFunction, Unbind
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.access import (
    component,
    driver_of,
    function_home,
    is_waiting,
    text,
    write,
)
from laneway.host.plans.operations.operation import (
    Limits,
    Operation,
    Seen,
    State,
    compare,
    gone,
)
from laneway.host.xids import KERNEL_LOG, reset_message

log = logging.getLogger(__name__)

_BUS = "/sys/bus/pci"
_NONE = "(null)"


async def unbind_state(hardware: Hardware, step: Unbind) -> Seen:
    if not hardware.host.exists(function_home(step.function)):
        return gone(step.function)
    return compare(driver_of(hardware, step.function), before=step.driver, after="")


async def unbind(hardware: Hardware, step: Unbind, limits: Limits) -> None:
    path = f"{_BUS}/drivers/{component(step.driver)}/unbind"
    await write(hardware, step.function, path, str(step.function), limits)


async def override_state(hardware: Hardware, step: OverrideDriver) -> Seen:
    if is_waiting(hardware, step.function):
        return Seen(State.OTHER, "an earlier write still waits in the kernel")
    try:
        name = text(hardware, f"{function_home(step.function)}/driver_override")
    except FileNotFoundError:
        return gone(step.function)
    return compare("" if name == _NONE else name, before=step.before, after=step.driver)


async def override(hardware: Hardware, step: OverrideDriver, limits: Limits) -> None:
    # A write of nothing reaches no driver; the kernel takes an empty line for no name.
    path = f"{function_home(step.function)}/driver_override"
    await write(hardware, step.function, path, f"{step.driver}\n", limits)


async def probe_state(hardware: Hardware, step: Probe) -> Seen:
    if not hardware.host.exists(function_home(step.function)):
        return gone(step.function)
    driver = driver_of(hardware, step.function)
    if step.driver:
        return compare(driver, before="", after=step.driver)
    return Seen(State.AFTER if driver else State.EITHER, driver)


async def probe(hardware: Hardware, step: Probe, limits: Limits) -> None:
    if not step.driver:
        path = f"{_BUS}/drivers_probe"
    else:
        home = f"{_BUS}/drivers/{component(step.driver)}"
        if not hardware.host.exists(home):
            raise OSError(errno.ENODEV, f"driver {step.driver} does not exist; load its module")
        path = f"{home}/bind"
    await write(hardware, step.function, path, str(step.function), limits)


async def reset_state(hardware: Hardware, step: ResetFunction) -> Seen:
    if not hardware.host.exists(function_home(step.function)):
        return gone(step.function)
    return Seen(State.EITHER, "")


async def reset(hardware: Hardware, step: ResetFunction, limits: Limits) -> None:
    path = f"{function_home(step.function)}/reset"
    await write(hardware, step.function, path, "1", limits)
    try:
        reported = f"{reset_message(step.function)}\n"
        await hardware.host.write_within(KERNEL_LOG, reported, limits.write_seconds)
    except OSError as error:
        log.warning("the kernel's log does not say that %s was reset: %s", step.function, error)


OPERATIONS: dict[type, Operation] = {
    Unbind: Operation(unbind_state, unbind),
    OverrideDriver: Operation(override_state, override),
    Probe: Operation(probe_state, probe),
    ResetFunction: Operation(reset_state, reset),
}
