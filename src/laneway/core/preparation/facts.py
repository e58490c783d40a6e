"""What is known of a host before it is prepared. Everything is read; nothing here is decided.

What could not be read stands in `unreadable` and is never taken for something that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from laneway.core.doctor.node_facts import ModuleState

LoaderName = Literal["grub", "grub2", "bls", "systemd-boot", "elemental", "unknown"]
"""`grub`: with `/etc/default/grub.d`, as on Debian and Ubuntu; `grub2`: without, as on SUSE;
`bls`: GRUB that reads entries, as on RHEL; `elemental`: as on Harvester."""


class BootLoader(msgspec.Struct, frozen=True, kw_only=True):
    """What boots the host, and the files from which it does so."""

    name: LoaderName = "unknown"
    files: Mapping[str, str] = {}
    """Content of its files, and of those that Laneway writes there, by path. What is not here is
    not there, unless it is unreadable."""
    missing: tuple[str, ...] = ()
    """Kernels and initial RAM disks that an entry names, and that are not there."""


class BootFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a host."""

    boot_id: str = ""
    """Of the running boot: another one after a reboot."""
    kernel: str = ""
    """Release of the running kernel."""
    processor: str = ""
    """Its vendor, as in `/proc/cpuinfo`: GenuineIntel, AuthenticAMD; empty elsewhere."""
    command_line: str = ""
    """Of the running kernel."""
    removed: tuple[str, ...] = ()
    """Words that Laneway removed from the files since this boot."""
    iommu_groups: int = 0
    iommu_tables: tuple[str, ...] = ()
    """Those of DMAR, IVRS, IORT and VIOT that the firmware gives."""
    modules: Mapping[str, ModuleState] = {}
    """Of vfio-pci and of the drivers that are to be blocked, by name."""
    needed: Mapping[str, str] = {}
    """Drivers to be blocked that the node needs itself, each with the reason in words."""
    blocked: frozenset[str] = frozenset()
    """Modules, spelled with `_`, that files of modprobe.d keep from being loaded by themselves."""
    memory: int = 0
    """MiB of the host; 0 where it is not known."""
    huge_pages: Mapping[str, int] = {}
    """How many there are, by size; only sizes that the processor has."""
    loader: BootLoader = BootLoader()
    files: Mapping[str, str] = {}
    """What Laneway wrote elsewhere than in the boot loader's files, by path."""
    unreadable: Mapping[str, str] = {}
    """Files that could not be read, each with the reason."""
