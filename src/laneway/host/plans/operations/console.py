"""Virtual consoles and firmware's framebuffer, which also use the boot display."""

from __future__ import annotations

from laneway.core.plan import SetConsole, SetFramebuffer
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.access import component, link, text, write
from laneway.host.plans.operations.operation import (
    Limits,
    Operation,
    Seen,
    State,
    compare,
    gone,
)

_PLATFORM = "/sys/bus/platform"


def _console(step: SetConsole) -> str:
    return f"/sys/class/vtconsole/vtcon{step.number}"


async def console_state(hardware: Hardware, step: SetConsole) -> Seen:
    try:
        name = text(hardware, f"{_console(step)}/name")
        value = text(hardware, f"{_console(step)}/bind")
    except FileNotFoundError:
        return gone(f"vtcon{step.number}")
    if name != step.name:
        return Seen(State.OTHER, name)
    return compare(value, before="0" if step.attached else "1", after="1" if step.attached else "0")


async def set_console(hardware: Hardware, step: SetConsole, limits: Limits) -> None:
    data = "1" if step.attached else "0"
    await write(hardware, f"vtcon{step.number}", f"{_console(step)}/bind", data, limits)


async def framebuffer_state(hardware: Hardware, step: SetFramebuffer) -> Seen:
    home = f"{_PLATFORM}/devices/{component(step.device)}"
    if not hardware.host.exists(home):
        return gone(step.device)
    bound, free = step.driver, ""
    before, after = (free, bound) if step.bound else (bound, free)
    return compare(link(hardware, f"{home}/driver"), before=before, after=after)


async def set_framebuffer(hardware: Hardware, step: SetFramebuffer, limits: Limits) -> None:
    action = "bind" if step.bound else "unbind"
    path = f"{_PLATFORM}/drivers/{component(step.driver)}/{action}"
    await write(hardware, step.device, path, step.device, limits)


OPERATIONS: dict[type, Operation] = {
    SetConsole: Operation(console_state, set_console),
    SetFramebuffer: Operation(framebuffer_state, set_framebuffer),
}
