"""What the kernel draws its console with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laneway.core.situation import Console, Framebuffer
from laneway.host.console import needs, read_consoles, read_framebuffers
from laneway.host.real import RealHost

Files = Callable[[Mapping[str, str]], str]

CLASS = "/sys/class/vtconsole"
DRIVERS = "/sys/bus/platform/drivers"


def test_consoles_come_by_number_with_what_they_are(files: Files) -> None:
    host = RealHost(
        files(
            {
                f"{CLASS}/vtcon10/name": "(M) frame buffer device\n",
                f"{CLASS}/vtcon10/bind": "1\n",
                f"{CLASS}/vtcon2/name": "(S) dummy device\n",
                f"{CLASS}/vtcon2/bind": "0\n",
                f"{CLASS}/vtcon3/name": "has no bind",
                f"{CLASS}/power/bind": "1\n",
            }
        )
    )
    assert read_consoles(host) == [
        Console(2, "(S) dummy device", attached=False),
        Console(10, "(M) frame buffer device", attached=True),
    ]


def test_only_framebuffers_that_a_driver_shows_are_found(files: Files) -> None:
    host = RealHost(
        files(
            {
                f"{DRIVERS}/efi-framebuffer/efi-framebuffer.0/driver_override": "",
                f"{DRIVERS}/efi-framebuffer/bind": "",
                f"{DRIVERS}/efi-framebuffer/module": "-> ../../../../module/efifb",
                f"{DRIVERS}/simple-framebuffer/bind": "",
                f"{DRIVERS}/serial8250/serial8250": "",
            }
        )
    )
    assert read_framebuffers(host) == [Framebuffer("efi-framebuffer.0", "efi-framebuffer")]


def test_the_lines_that_carry_the_system_console_are_needed(files: Files) -> None:
    host = RealHost(
        files(
            {
                "/sys/devices/pci0000:00/0000:00:16.3/tty/ttyS4/dev": "4:68\n",
                "/sys/class/tty/ttyS4": "-> ../../devices/pci0000:00/0000:00:16.3/tty/ttyS4",
                "/sys/class/tty/console/active": "tty0 ../ttyS4 . .. ttyS4\n",
            }
        )
    )
    [need] = needs(host)
    assert need.path == "/sys/devices/pci0000:00/0000:00:16.3/tty/ttyS4"
    assert need.reason == "carries the system console (ttyS4)"


def test_a_machine_without_a_screen_has_neither(files: Files) -> None:
    host = RealHost(files({}))
    assert (read_consoles(host), read_framebuffers(host)) == ([], [])
