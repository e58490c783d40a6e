"""Whether a driver is there, or could be loaded.

`/proc/modules` is not asked: what is built into the kernel never appears there. A PCI driver that
works has a directory on its bus; one that could be loaded is in the index that `modprobe` uses.
Modules that are no PCI drivers have a directory of their own once they are loaded, and so have
those built into the kernel that have parameters; all of these are in an index as well.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

from laneway.core.doctor.node_facts import ModuleState
from laneway.host.attributes import clean
from laneway.host.port import Host

Availability = Literal["ready", "loadable", "missing"]

_DRIVERS = "/sys/bus/pci/drivers"
_NAME = re.compile(r"[A-Za-z0-9_.+~-]*[A-Za-z0-9_+~-]")
"""Of a driver or a kernel release: nothing that would lead elsewhere in a path."""


def kernel_release(host: Host) -> str:
    """Of the running kernel; empty when it is not known."""
    try:
        release = clean(host.read("/proc/sys/kernel/osrelease"))
    except OSError:
        return ""
    return release if _NAME.fullmatch(release) else ""


def driver_availability(host: Host, driver: str) -> Availability:
    """Of a PCI driver whose module has the same name, `-` and `_` being one to the kernel."""
    if _NAME.fullmatch(driver) is None:
        return "missing"
    if host.exists(f"{_DRIVERS}/{driver}"):
        return "ready"
    return "loadable" if _indexed(host, driver) else "missing"


def module_state(host: Host, module: str) -> ModuleState:
    """Of a module by its name, `-` and `_` being one to the kernel."""
    if _indexed(host, module, "modules.builtin"):
        return "built in"
    driver = driver_availability(host, module)
    if driver == "ready" or host.exists(f"/sys/module/{module.replace('-', '_')}"):
        return "loaded"
    return driver


def _indexed(host: Host, module: str, which: str = "modules.dep") -> bool:
    release = kernel_release(host)
    try:
        index = host.read(f"/lib/modules/{release}/{which}") if release else b""
    except OSError:
        return False
    wanted = module.replace("-", "_")
    for line in index.decode("utf-8", "replace").splitlines():
        # kernel/drivers/vfio/pci/vfio-pci.ko.xz: what it needs
        name, mark, _ = posixpath.basename(line.partition(":")[0]).partition(".ko")
        if mark and name.replace("-", "_") == wanted:
            return True
    return False
