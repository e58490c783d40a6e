"""The devices that the node's console runs on: its frame buffer and serial lines."""

from __future__ import annotations

from laneway.host.attributes import clean
from laneway.host.critical import Need
from laneway.host.paths import real_path
from laneway.host.port import Host

_FIRST_FRAME_BUFFER = "fb0"
"""The kernel puts its virtual consoles on the first one."""


def needs(host: Host) -> list[Need]:
    """The console's devices, none where nothing says what they are."""
    found = _need(
        host, f"/sys/class/graphics/{_FIRST_FRAME_BUFFER}", "shows the virtual console (fb0)"
    )
    try:
        active = clean(host.read("/sys/class/tty/console/active")).split()
    except OSError:
        active = []
    for tty in active:
        if "/" not in tty and tty not in (".", ".."):
            found += _need(host, f"/sys/class/tty/{tty}", f"carries the system console ({tty})")
    return found


def _need(host: Host, link: str, reason: str) -> list[Need]:
    try:
        return [Need(real_path(host, link), reason)]
    except OSError:
        return []
