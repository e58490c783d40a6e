"""Where a machine shows whether it has an IOMMU, and whose, and whether it is a VM itself."""

from __future__ import annotations

GROUPS = "/sys/kernel/iommu_groups"
TABLES = ("DMAR", "IVRS", "IORT", "VIOT")
"""Tables of the firmware that describe one: of Intel, AMD, Arm, and of hypervisors."""
CPUINFO = "/proc/cpuinfo"


def processor_vendor(cpuinfo: str) -> str:
    """The vendor, as in GenuineIntel; empty where the processor does not tell."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "vendor_id":
            return value.strip()
    return ""


def is_virtual(cpuinfo: str) -> bool:
    """Whether a hypervisor runs this machine: x86 processors have a flag for it, set by all."""
    flags = (line.partition(":") for line in cpuinfo.splitlines())
    return any(key.strip() == "flags" and "hypervisor" in of.split() for key, _, of in flags)
