"""Reads what is known of a host before it is prepared. Nothing is written."""

from __future__ import annotations

import asyncio

import msgspec

from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.judge import ACPI_TABLES
from laneway.core.preparation.modules import OWN_FILES
from laneway.core.preparation.wanted import MODULE_NAME, NOTHING, Wanted
from laneway.host import iommu, modules
from laneway.host.boot import removed
from laneway.host.boot.loader import Reader, read_loader
from laneway.host.boot.needed import needed
from laneway.host.hardware import Hardware
from laneway.host.port import Host

_HUGE_PAGES = "/sys/kernel/mm/hugepages"
# A file hides those of the same name in later folders.
_MODPROBE = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


async def read_facts(hardware: Hardware, wanted: Wanted = NOTHING) -> BootFacts:
    """One look at a host. `wanted`: whose drivers to look for. What cannot be read is named."""
    facts = await asyncio.to_thread(_read, hardware.host, wanted)
    return msgspec.structs.replace(facts, removed=removed.read(hardware.state, facts.boot_id))


def _read(host: Host, wanted: Wanted) -> BootFacts:
    read = Reader(host)
    drivers = [one for one in wanted.blocked_drivers if MODULE_NAME.fullmatch(one)]
    tables = read.names(ACPI_TABLES)
    return BootFacts(
        boot_id=(read.text(_BOOT_ID) or "").strip(),
        kernel=modules.kernel_release(host),
        processor=iommu.processor_vendor(read.text(iommu.CPUINFO) or ""),
        command_line=(read.text("/proc/cmdline") or "").strip(),
        iommu_groups=len(read.names(iommu.GROUPS)),
        iommu_tables=tuple(one for one in iommu.TABLES if one in tables),
        modules={name: modules.module_state(host, name) for name in (VFIO_DRIVER, *drivers)},
        needed=needed(host, drivers) if drivers else {},
        blocked=_blocked(read),
        memory=_memory(read),
        huge_pages=_huge_pages(read),
        loader=read_loader(read),
        files=read.texts(OWN_FILES),
        unreadable=read.unreadable,
    )


def _blocked(read: Reader) -> frozenset[str]:
    paths: dict[str, str] = {}
    for folder in _MODPROBE:
        for name in read.names(folder):
            if name.endswith(".conf"):
                paths.setdefault(name, f"{folder}/{name}")
    found = set()
    for text in read.texts(paths.values(), "replace").values():
        for line in text.splitlines():
            match line.split():
                case ["blacklist", module, *_]:
                    found.add(module.replace("-", "_"))
    return frozenset(found)


def _memory(read: Reader) -> int:
    for line in (read.text("/proc/meminfo") or "").splitlines():
        match line.split():
            case ["MemTotal:", kilobytes, "kB"] if kilobytes.isdecimal():
                return int(kilobytes) // 1024
    return 0


def _huge_pages(read: Reader) -> dict[str, int]:
    found = {}
    for name in read.names(_HUGE_PAGES):
        kilobytes = name.removeprefix("hugepages-").removesuffix("kB")
        count = (read.text(f"{_HUGE_PAGES}/{name}/nr_hugepages") or "").strip()
        if kilobytes.isdecimal() and count.isdecimal():
            found[_size(int(kilobytes))] = int(count)
    return found


def _size(kilobytes: int) -> str:
    for unit, factor in (("G", 2**20), ("M", 2**10)):
        if kilobytes >= factor:
            return f"{kilobytes // factor}{unit}"
    return f"{kilobytes}K"
