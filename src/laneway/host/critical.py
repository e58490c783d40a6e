"""Which devices a node cannot do without, and why: the decision, apart from all reading.

A need is a reason and the sysfs device path that carries it. The path itself names the hardware on
the way: its last PCI function serves the need, a USB device on it does too, hubs and bridges above
carry them. So the decision asks nothing of the machine and holds for recorded ones.

A node runs on without its console's display, so a GPU that shows it can be given away. Not so the
display of a service processor: through it one sees the machine from afar when all else fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import msgspec

from laneway.core.pci import PciAddress, PciFunction
from laneway.host.paths import functions_on, usb_ports_on

_BY_CLASS = {
    "0600": "host bridge",
    "0601": "bridge to the legacy devices of the board",
    "0604": "PCI bridge",
    "0609": "PCI bridge",
    "0806": "IOMMU",
    "0c07": "management controller (BMC)",
}
"""Classes that serve the node whatever is configured. Not 0680: NVSwitch belongs to VMs."""

_MANAGEMENT_DRIVERS = ("hpilo", "ipmi_si")
_DISPLAY = "03"
_MANAGEMENT_DISPLAYS = ("1a03", "102b", "19e5")
"""Vendors whose displays belong to service processors: ASPEED, Matrox, Huawei."""


Use = Literal["mount", "swap", "display", "other"]


class Need(msgspec.Struct, frozen=True):
    """Something the node runs on."""

    path: str
    """Real sysfs path of the device that carries it."""
    reason: str
    use: Use = "other"


class Critical(msgspec.Struct, frozen=True):
    """The reasons by device, the most telling first."""

    functions: dict[PciAddress, tuple[str, ...]]
    usb: dict[str, tuple[str, ...]]
    displays: dict[PciAddress, tuple[str, ...]] = {}
    """Functions that show the console and are not critical for that."""


def decide(functions: Iterable[PciFunction], needs: Iterable[Need]) -> Critical:
    """Every critical device that exists, with its reasons."""
    known = {function.address: function for function in functions}
    pci: dict[PciAddress, list[str]] = defaultdict(list)
    usb: dict[str, list[str]] = defaultdict(list)
    displays: dict[PciAddress, list[str]] = defaultdict(list)
    for need in needs:
        addresses, ports = functions_on(need.path), usb_ports_on(need.path)
        if need.use == "display" and addresses and not ports and _spared(known.get(addresses[-1])):
            displays[addresses[-1]].append(need.reason)
            continue
        if ports:
            usb[ports[-1]].append(need.reason)
            for hub in ports[:-1]:
                usb[hub].append(f"hub above USB device {ports[-1]}, which {need.reason}")
        if addresses:
            via = f"controls USB device {ports[-1]}, which " if ports else ""
            pci[addresses[-1]].append(via + need.reason)
    for function in known.values():
        if function.boot_vga:
            found = displays if _spared(function) else pci
            found[function.address].append("is the boot display")
    _spread(known, pci)
    for function in known.values():
        if own := _own_role(function.driver, function.class_code, function.vendor):
            pci[function.address].append(own)
    return Critical(
        {address: _unique(pci[address]) for address in sorted(pci) if address in known},
        {port: _unique(usb[port]) for port in sorted(usb)},
        {address: _unique(displays[address]) for address in sorted(displays)},
    )


def _spread(known: dict[PciAddress, PciFunction], pci: dict[PciAddress, list[str]]) -> None:
    """To the PF of a critical VF and to every bridge above: without them it is gone too."""
    for address in sorted(address for address in pci if address in known):
        reason = pci[address][0]
        physfn = known[address].physfn
        if physfn and physfn in known:
            pci[physfn].append(f"physical function of {address}, which {reason}")
        seen = {address}
        above = known[address].upstream
        while above in known and above not in seen:
            seen.add(above)
            pci[above].append(f"bridge above {address}, which {reason}")
            above = known[above].upstream


def _spared(function: PciFunction | None) -> bool:
    """Whether a display can be spared, by its class and maker."""
    return (
        function is not None
        and function.class_code.startswith(_DISPLAY)
        and function.vendor not in _MANAGEMENT_DISPLAYS
    )


@lru_cache(maxsize=1024)
def _own_role(driver: str, class_code: str, vendor: str) -> str:
    """Remembered, because a server shows the same few kinds of functions by the hundred."""
    if driver in _MANAGEMENT_DRIVERS:
        return "management controller (BMC)"
    if class_code.startswith(_DISPLAY) and vendor in _MANAGEMENT_DISPLAYS:
        return "display of the management controller (BMC)"
    return _BY_CLASS.get(class_code[:4], "")


def _unique(reasons: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))
