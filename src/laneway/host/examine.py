"""The facts about a node that its doctor judges. Everything is read, nothing is written.

Each fact is read for itself: what is not there has its neutral value, and what may not be read
without more rights is named among the `hidden`.
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
from collections import Counter
from collections.abc import Iterable

from laneway.core.doctor import device_plugin
from laneway.core.doctor.node_facts import KubeletState, ModuleState, NodeFacts
from laneway.core.driver_toolkit.standing import Standing
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.preparation.judge import ACPI_TABLES
from laneway.core.programs import SRIOV_MANAGE
from laneway.host import iommu, modules
from laneway.host.attributes import clean
from laneway.host.driver_record import read_driver
from laneway.host.holders import visibility_error
from laneway.host.pci import DEVICES
from laneway.host.plans.files import StateError
from laneway.host.plans.state import open_state
from laneway.host.port import Executor, Host, KernelLogUnavailableError
from laneway.host.scan import scan

KUBELET = "/var/lib/kubelet"

_SECRET = (errno.EACCES, errno.EPERM)
_MODULES = ("vfio-pci", "vfio", "vfio_iommu_type1")
_VGPU_MODULES = ("nvidia_vgpu_vfio", "nvidia_vgpu_mgr")
_HUGE_PAGES = "/sys/kernel/mm/hugepages"
"""A folder for each size that the processor has."""
_UNSET = 0x20000000
"""Flag of a memory range that has no place (IORESOURCE_UNSET)."""
_RANGES = 13
"""Six of the function, its ROM, six of its VFs."""
_COMM = 15
"""How much the kernel keeps of a program's name."""


async def examine(
    host: Host, executor: Executor, state: str, *, kubelet: str = KUBELET
) -> NodeFacts:
    """Look at a node. `state`: the folder of what Laneway remembers there; empty for none."""
    log = await _kernel_log(host)
    manage = await executor.has(SRIOV_MANAGE)
    return await asyncio.to_thread(_files, host, state, kubelet, log, sriov_manage=manage)


def _files(host: Host, state: str, kubelet: str, log: str, *, sriov_manage: bool) -> NodeFacts:
    look = _Look(host)
    inventory = scan(host)
    cpuinfo = look.text(iommu.CPUINFO)
    taken, quarantined = _remembered(host, state, look)
    kubelet_state, sockets = _kubelet(look, kubelet)
    return NodeFacts(
        inventory=inventory,
        kernel=modules.kernel_release(host),
        arguments=tuple(look.text("/proc/cmdline").split()),
        processor=iommu.processor_vendor(cpuinfo),
        virtual=iommu.is_virtual(cpuinfo),
        iommu_groups=len(look.names(iommu.GROUPS)),
        iommu_tables=tuple(one for one in iommu.TABLES if host.exists(f"{ACPI_TABLES}/{one}")),
        remapping=_remapping(look),
        unsafe_interrupts=look.text(
            "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
        )
        in ("Y", "1"),
        modules={name: _module(host, name) for name in _MODULES},
        vgpu_modules=tuple(one for one in _VGPU_MODULES if host.exists(f"/sys/module/{one}")),
        sriov_manage=sriov_manage,
        driver=_driver(host, state),
        unassigned=_unassigned(look, inventory),
        no_ari=_no_ari(look, inventory),
        kubelet=kubelet,
        kubelet_state=kubelet_state,
        plugin_sockets=sockets,
        kernel_log=log,
        vfio_nodes=frozenset(look.names(device_plugin.VFIO_NODES)),
        huge_pages=_huge_pages(look),
        programs=_programs(look),
        taken=taken,
        quarantined=quarantined,
        visibility_error=visibility_error(host),
        hidden=tuple(sorted(look.hidden)),
    )


class _Look:
    """Reads files; owns the list of those that it may not read."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.hidden: set[str] = set()

    def text(self, path: str) -> str:
        """The file without surrounding blanks; empty where it cannot be read."""
        try:
            return clean(self.host.read(path))
        except OSError as error:
            self._missed(path, error)
            return ""

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none where it cannot be read."""
        try:
            return sorted(self.host.names(path))
        except OSError as error:
            self._missed(path, error)
            return []

    def _missed(self, path: str, error: OSError) -> None:
        if error.errno in _SECRET:
            self.hidden.add(path)


async def _kernel_log(host: Host) -> str:
    try:
        async with host.kernel_messages():
            return ""
    except KernelLogUnavailableError as error:
        return str(error)


def _remapping(look: _Look) -> bool | None:
    """The kernel names the controllers of remapped interrupts so, on Intel and AMD."""
    interrupts = look.text("/proc/interrupts")
    if "IO-APIC" not in interrupts:
        return None  # Not a PC, or nothing to tell from.
    return "IR-" in interrupts


def _module(host: Host, name: str) -> ModuleState:
    state = modules.module_state(host, name)
    if state == "missing" and host.exists(f"{device_plugin.VFIO_NODES}/vfio"):
        return "built in"  # A part without parameters leaves no other trace.
    return state


def _unassigned(look: _Look, inventory: Inventory) -> dict[PciAddress, tuple[int, ...]]:
    found = {}
    for function in inventory.functions:
        lines = look.text(f"{DEVICES}/{function.address}/resource").splitlines()[:_RANGES]
        if missing := tuple(n for n, line in enumerate(lines) if _is_unset(line)):
            found[function.address] = missing
    return found


def _is_unset(line: str) -> bool:
    try:
        _start, end, flags = (int(part, 16) for part in line.split())
    except ValueError:
        return False
    return bool(end and flags & _UNSET)


def _no_ari(look: _Look, inventory: Inventory) -> frozenset[PciAddress]:
    return frozenset(
        one.address
        for one in inventory.functions
        if one.total_vfs and look.text(f"{DEVICES}/{one.address}/ari_enabled") == "0"
    )


def _kubelet(look: _Look, folder: str) -> tuple[KubeletState, tuple[str, ...]]:
    if not look.host.exists(folder):
        return "none", ()
    plugins = posixpath.join(folder, "device-plugins")
    if not look.host.exists(plugins):
        return "no folder", ()
    names = look.names(plugins)
    sockets = tuple(name for name in names if name.endswith(".sock") and name != "kubelet.sock")
    there = "kubelet.sock" in names or look.host.exists(f"{plugins}/kubelet.sock")
    return ("ready" if there else "no socket"), sockets


def _huge_pages(look: _Look) -> int | None:
    """Of all sizes; /proc/meminfo counts those of the default size alone."""
    texts = [look.text(f"{_HUGE_PAGES}/{size}/nr_hugepages") for size in look.names(_HUGE_PAGES)]
    found = [int(text) for text in texts if text.isdecimal()]
    return sum(found) if found else None


def _programs(look: _Look) -> dict[str, int]:
    """Those that matter, by their whole names; a name that is cut off counts for the first."""
    known: dict[str, str] = {}
    for name in (*device_plugin.OTHER_PROGRAMS, *device_plugin.CLIENTS):
        known.setdefault(name[:_COMM], name)
    found = Counter(
        known[comm] for pid in _processes(look) if (comm := look.text(f"/proc/{pid}/comm")) in known
    )
    return dict(found)


def _processes(look: _Look) -> Iterable[str]:
    return (name for name in look.names("/proc") if name.isdecimal())


def _remembered(
    host: Host, folder: str, look: _Look
) -> tuple[tuple[str, ...] | None, dict[PciAddress, str]]:
    """What Laneway has taken, for claims and for people at the node, and what is quarantined."""
    try:
        if not folder:
            return (), {}
        notes = open_state(folder, host)
        taken = {*notes.claimed, *map(str, notes.originals)}
        return tuple(sorted(taken)), notes.quarantined
    except (StateError, OSError):
        look.hidden.add(folder)
        return None, {}


def _driver(host: Host, folder: str) -> Standing | None:
    """How the driver is; a node that does not tell its boot is told of with its notes."""
    try:
        return read_driver(host, open_state(folder, host)) if folder else None
    except OSError:
        return None
