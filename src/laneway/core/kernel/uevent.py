"""Kernel uevents: the message that says that a device came, went or changed."""

from __future__ import annotations

import msgspec


class Uevent(msgspec.Struct, frozen=True):
    """One kernel event. `OVERFLOW` stands for events that were lost: rescan everything."""

    action: str
    devpath: str
    """Below /sys: `/devices/pci0000:00/0000:00:03.0`."""
    properties: dict[str, str] = {}

    @property
    def subsystem(self) -> str:
        return self.properties.get("SUBSYSTEM", "")


OVERFLOW = Uevent("overflow", "")


def parse_uevent(message: bytes) -> Uevent | None:
    """Read a raw netlink message (`ACTION@DEVPATH`, then `KEY=value`, NUL-separated).

    None for anything that is not a kernel event (udevd's own messages start with `libudev`).
    """
    head, *pairs = message.decode("utf-8", "replace").split("\0")
    action, at, devpath = head.partition("@")
    if not at or not action.isalpha() or not devpath.startswith("/"):
        return None
    properties = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return Uevent(action, devpath, properties)
