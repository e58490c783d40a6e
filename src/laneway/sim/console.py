"""The virtual consoles of a simulated host, and the framebuffer that its firmware left.

The consoles are drawn by one console driver or the other, `(M)` on a framebuffer and `(S)` on
nothing; where the framebuffer goes, its console driver goes with it, and comes back attached.
While the framebuffer is there, the memory of the boot GPU is in use.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.pci_core import WRITE_ONLY
from laneway.sim.tree import os_error
from laneway.sim.values import parse_name, parse_unsigned

_CONSOLE = re.compile(r"/sys(/devices/virtual/vtconsole/vtcon[0-9]+)/bind")
_DRIVERS = "/sys/bus/platform/drivers"
_DRIVER_FILE = re.compile(rf"{_DRIVERS}/([a-z]+-framebuffer)/(bind|unbind)")
_CONSOLES = "/devices/virtual/vtconsole/vtcon"
_PLATFORM = "/devices/platform/"
_FIRMWARE_DRIVERS = frozenset({"efi-framebuffer", "simple-framebuffer", "vesa-framebuffer"})
_DUMMY = b"(S)"


class Consoles:
    """Not locked: its host serialises access."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._gone: dict[str, list[Block]] = {}
        """What went with a framebuffer's driver, parents first, by the framebuffer's path."""
        self._framebuffers: dict[str, str] = {}
        """The driver of each."""

    def load(self) -> None:
        """Find the framebuffers among the devices that there are."""
        for path in self._devices:
            driver = self._devices[path].properties.get("DRIVER", "")
            if driver in _FIRMWARE_DRIVERS and path.startswith(_PLATFORM):
                self._framebuffers[path] = driver
                for name in ("bind", "unbind"):
                    self._devices.tree.put(f"{_DRIVERS}/{driver}/{name}", WRITE_ONLY)

    def in_use(self, block: Block) -> bool:
        """Whether a framebuffer lies in a function's memory."""
        return block.attributes.get("boot_vga") == b"1\n" and any(
            map(self._bound, self._framebuffers)
        )

    def evict(self, block: Block) -> None:
        """Take the framebuffers out of a function's memory."""
        for path, driver in self._framebuffers.items():
            if block.attributes.get("boot_vga") == b"1\n" and self._bound(path):
                self._unbind(path, driver)

    def store(self, path: str) -> Callable[[str], None] | None:
        """What writing to a path does; None for what is no file of this kind. Links resolved."""
        if match := _CONSOLE.fullmatch(path):
            console = match[1]
            return lambda data: self._attach(console, parse_unsigned(data) != 0)
        if match := _DRIVER_FILE.fullmatch(path):
            driver, change = match[1], self._bind if match[2] == "bind" else self._unbind
            return lambda data: change(_PLATFORM + parse_name(data), driver)
        return None

    def _bound(self, path: str) -> bool:
        return "DRIVER" in self._devices[path].properties

    def _consoles(self) -> list[str]:
        return [path for path in self._devices if path.startswith(_CONSOLES)]

    def _is_dummy(self, path: str) -> bool:
        return self._devices[path].attributes.get("name", b"").startswith(_DUMMY)

    def _on_framebuffers(self) -> list[str]:
        return [path for path in self._consoles() if not self._is_dummy(path)]

    def _attach(self, console: str, attach: bool) -> None:
        """Have one console driver draw; one that does not leaves it to the other."""
        drawing = console if attach else None
        for path in self._consoles():
            draws = path == drawing or (drawing is None and self._is_dummy(path))
            self._devices.set_attribute(path, "bind", "1" if draws else "0")

    def _bind(self, path: str, driver: str) -> None:
        self._check(path, driver)
        if self._bound(path):
            raise os_error(errno.EBUSY)
        self._devices.set_driver(path, driver)
        for block in self._gone.pop(path, ()):
            self._devices.add(block)
        for console in self._on_framebuffers():
            self._attach(console, attach=True)
        self._devices.announce("bind", path)

    def _check(self, path: str, driver: str) -> None:
        if self._framebuffers.get(path) != driver:
            raise os_error(errno.ENODEV)

    def _unbind(self, path: str, driver: str) -> None:
        self._check(path, driver)
        if not self._bound(path):
            raise os_error(errno.ENODEV)
        self._devices.set_driver(path, "")
        drawn = self._on_framebuffers()
        for console in drawn:
            self._attach(console, attach=False)
        below = [inner for inner in self._devices.below(path) if inner != path]
        self._gone[path] = [self._devices.remove(inner) for inner in (*drawn, *below)][::-1]
        self._devices.announce("unbind", path)
