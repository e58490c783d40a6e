"""The node's console: the devices it runs on, and what the kernel draws it with.

Firmware leaves a framebuffer in the memory of the boot GPU, which a platform driver shows and the
virtual consoles draw on. Both keep that memory until they are unbound.
"""

from __future__ import annotations

import re

from laneway.core.situation import Console, Framebuffer
from laneway.host.attributes import clean
from laneway.host.critical import Need, Use
from laneway.host.paths import real_path
from laneway.host.port import Host

_FIRST_FRAME_BUFFER = "fb0"
"""The kernel puts its virtual consoles on the first one."""
_CONSOLES = "/sys/class/vtconsole"
_PLATFORM_DRIVERS = "/sys/bus/platform/drivers"
_FIRMWARE_DRIVERS = ("efi-framebuffer", "simple-framebuffer", "vesa-framebuffer")
_CONSOLE = re.compile(r"vtcon([0-9]{1,4})")


def needs(host: Host) -> list[Need]:
    """The console's devices, none where nothing says what they are."""
    found = _need(
        host,
        f"/sys/class/graphics/{_FIRST_FRAME_BUFFER}",
        "shows the virtual console (fb0)",
        "display",
    )
    try:
        active = clean(host.read("/sys/class/tty/console/active")).split()
    except OSError:
        active = []
    for tty in active:
        if "/" not in tty and tty not in (".", ".."):
            found += _need(
                host, f"/sys/class/tty/{tty}", f"carries the system console ({tty})", "other"
            )
    return found


def read_consoles(host: Host) -> list[Console]:
    """Every console driver, by number."""
    found = []
    for name in _names(host, _CONSOLES):
        if match := _CONSOLE.fullmatch(name):
            try:
                title = clean(host.read(f"{_CONSOLES}/{name}/name"))
                attached = clean(host.read(f"{_CONSOLES}/{name}/bind")) == "1"
            except OSError:
                continue  # its driver has gone since
            found.append(Console(int(match[1]), title, attached))
    return sorted(found, key=lambda console: console.number)


def read_framebuffers(host: Host) -> list[Framebuffer]:
    """Every framebuffer of firmware's that a driver shows."""
    return [
        Framebuffer(name, driver)
        for driver in _FIRMWARE_DRIVERS
        for name in sorted(_names(host, f"{_PLATFORM_DRIVERS}/{driver}"))
        if name.rpartition(".")[0] in _FIRMWARE_DRIVERS
    ]


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names(path)
    except OSError:
        return []


def _need(host: Host, link: str, reason: str, use: Use) -> list[Need]:
    try:
        return [Need(real_path(host, link), reason, use)]
    except OSError:
        return []
