"""What is asked of a host: by a HostPolicy, by a Setting, or by `laneway host prepare`.

It becomes words of a kernel command line, which decides whether a machine boots at all. So what is
not plainly harmless is named as invalid here, before anything else is looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from laneway.core.preparation.arguments import BLACKLIST, against, iommu_off, name_of

MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,60}")
"""Of a kernel module: nothing that a program could take for an option, nor for a path."""
HUGE_PAGE_SIZES = ("64K", "2M", "32M", "512M", "1G", "2G", "16G")
"""Those that processors have which run VMs with devices."""
_MOST_PAGES = 2**24
_MOST_ARGUMENTS = 32
_LONGEST = 200
_ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:;/+@%=*-]*)?")
"""No blanks, quotes, backslashes, `$`, `#` or control characters: what GRUB and shells would read
in their own way."""
_BOOTING = frozenset(
    [
        "boot_image",
        "initrd",
        "root",
        "rootfstype",
        "rootflags",
        "rootdelay",
        "rootwait",
        "ro",
        "rw",
        "resume",
        "resume_offset",
        "noresume",
        "init",
        "rdinit",
        "single",
        "emergency",
        "rescue",
        "s",
        "1",
        "2",
        "3",
        "4",
        "5",
        "mem",
        "memmap",
        "maxcpus",
        "nr_cpus",
        "nosmp",
        "noapic",
        "acpi",
        "nolapic",
        "crashkernel",
        "lsm",
        "selinux",
        "enforcing",
        "apparmor",
        "security",
        "fips",
        "ip",
        "nfsroot",
        "lockdown",
        "module_blacklist",
        "initcall_blacklist",
        "nomodule",
        "nomodules",
        "noefi",
        "efi",
    ]
)
"""Parameters that decide what boots, or how it is protected. They are the administrator's."""
_PREFIXES = ("rd.", "systemd.", "cos_", "elemental.", "ostree", "module.sig_")


class HugePages(msgspec.Struct, frozen=True):
    """Pages of one size that are set aside at boot."""

    size: str
    """`2M`, `1G`"""
    count: int

    @property
    def memory(self) -> int:
        """MiB of all, rounded down. The size is a valid one."""
        kilobytes = int(self.size[:-1]) << {"K": 0, "M": 10, "G": 20}[self.size[-1]]
        return kilobytes * self.count >> 10


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a host is to be like. Nothing: as it is without Laneway."""

    iommu: bool = False
    """The kernel uses the IOMMU."""
    iommu_passthrough: bool = False
    """The host's own devices bypass translation, which costs them nothing then (`iommu=pt`)."""
    vfio_at_boot: bool = False
    """vfio-pci and what it needs are loaded at boot."""
    blocked_drivers: tuple[str, ...] = ()
    """Kernel modules that are kept off devices: nouveau, nvidiafb."""
    huge_pages: tuple[HugePages, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    """Further words of the kernel command line."""


NOTHING = Wanted()


def usual(*, nvidia: bool) -> Wanted:
    """What passthrough needs. `nvidia`: the host has an NVIDIA GPU, which nouveau would take."""
    return Wanted(iommu=True, vfio_at_boot=True, blocked_drivers=("nouveau",) if nvidia else ())


def invalid(wanted: Wanted) -> tuple[str, ...]:
    """Everything that is wrong with it, in words; nothing when it can be done."""
    return tuple(_problems(wanted))


def _problems(wanted: Wanted) -> Iterator[str]:
    for driver in wanted.blocked_drivers:
        if MODULE_NAME.fullmatch(driver) is None:
            yield f"blocked driver {_shown(driver)} is not the name of a kernel module"
        elif driver.replace("-", "_").startswith("vfio"):
            yield f"blocked driver {driver} is what passes devices to VMs"
    sizes = Counter(one.size for one in wanted.huge_pages)
    for size, times in sizes.items():
        if size not in HUGE_PAGE_SIZES:
            yield (f"huge page size {_shown(size)} is none of {', '.join(HUGE_PAGE_SIZES)}")
        if times > 1:
            yield f"huge pages of {_shown(size)} are listed {times} times"
    for one in wanted.huge_pages:
        if not 1 <= one.count <= _MOST_PAGES:
            yield f"{one.count} huge pages of {_shown(one.size)}: use 1 to {_MOST_PAGES}"
    if len(wanted.kernel_arguments) > _MOST_ARGUMENTS:
        count = len(wanted.kernel_arguments)
        yield f"{count} kernel arguments: use at most {_MOST_ARGUMENTS}"
    for word in wanted.kernel_arguments:
        if problem := _argument(word, wanted):
            yield f"kernel argument {_shown(word)} {problem}"


def _argument(word: str, wanted: Wanted) -> str:
    if len(word) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    if _ARGUMENT.fullmatch(word) is None:
        return "is not NAME or NAME=VALUE of letters, digits and _ . , : ; / + @ % * -"
    name = name_of(word).lower()
    if name in _BOOTING or name.startswith(_PREFIXES):
        return "decides how the host boots, which Laneway leaves to its administrator"
    if name == BLACKLIST:
        return "keeps drivers off devices; use the blocked drivers of the policy instead"
    if name in ("hugepages", "hugepagesz"):
        return "depends on its neighbours; use the huge pages of the policy instead"
    if wanted.iommu and iommu_off([word]):
        return "switches off the IOMMU, which is requested as well"
    if wanted.iommu_passthrough and against([word], "iommu=pt"):
        return "contradicts iommu=pt, which is requested as well"
    return ""


def _shown(text: str) -> str:
    return repr(text[:60])
