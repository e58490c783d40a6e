"""Which drivers must not be kept off devices: a node that boots without one may not boot at all.

A driver of a device that the node cannot do without is one of them. So is a module that is in use
and drives no PCI device: a file system, or the disk of a virtual machine.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable

from laneway.core.pci import PciAddress
from laneway.host.attributes import clean
from laneway.host.port import Host
from laneway.host.scan import scan

_DRIVERS = "/sys/bus/pci/drivers"


def needed(host: Host, modules: Iterable[str]) -> dict[str, str]:
    """Those of the modules that the node needs, each with the reason in words."""
    inventory = scan(host)
    driven: dict[str, list[PciAddress]] = defaultdict(list)
    for function in inventory.functions:
        if function.driver:
            driven[_module_of(host, function.driver)].append(function.address)
    found = {}
    for module in modules:
        name = module.replace("-", "_")
        for address in driven[name]:
            if reasons := inventory.critical.get(address):
                found[module] = f"{module} drives {address}, which the node needs ({reasons[0]})."
                break
        if not driven[name] and (users := _users(host, name)):
            found[module] = f"{module} is in use ({users}), and drives no PCI device."
    return found


def _module_of(host: Host, driver: str) -> str:
    try:
        return posixpath.basename(host.readlink(f"{_DRIVERS}/{driver}/module"))
    except OSError:
        return driver.replace("-", "_")


def _users(host: Host, module: str) -> str:
    try:
        count = clean(host.read(f"/sys/module/{module}/refcnt"))
    except OSError:
        return ""
    return "" if count == "0" else f"{count} users"
