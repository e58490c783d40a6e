"""Where a machine shows whether it has an IOMMU, and whose."""

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
