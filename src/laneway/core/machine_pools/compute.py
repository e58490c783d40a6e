"""The CPU and memory that the pod of a machine requests of its node.

Harvester's webhook divides the limits by its setting `overcommit-config`, but for the memory of VMs
with devices: VFIO pins what the guest has, so that is requested (kubevirt/kubevirt#10379). KubeVirt
adds what QEMU and its own processes need, by the formula of its `GetMemoryOverhead`, with one GiB
for the mappings of devices.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 2**20
GIB = 2**30
RESERVED_MIB = 100
"""What the guest does not get of its memory, unless the configuration says."""
_PROCESSES = (25 + 100 + 25 + 40 + 30) * MIB
"""virt-launcher-monitor, virt-launcher, virtlogd, virtqemud and QEMU."""
_PER_CPU = 8 * MIB
_IO_THREAD = 8 * MIB
_GRAPHICS = 32 * MIB
_PAGE_TABLES = 512
"""So many bytes of memory need one byte of page tables."""


class Overcommit(NamedTuple):
    """Harvester's setting: percent of the resources of a node that VMs can request."""

    cpu: int = 1600
    memory: int = 150


DEFAULT = Overcommit()


class Size(NamedTuple):
    """What a machine is to have."""

    cpus: int
    memory: int
    """Bytes."""
    reserved: int = RESERVED_MIB * MIB
    """What of these the guest does not get."""
    pinned: bool = False
    """Its processors are its own."""
    devices: bool = False


def requested(size: Size, overcommit: Overcommit = DEFAULT) -> tuple[int, int]:
    """Thousandths of a processor, and bytes."""
    cpu = size.cpus * 1000
    if not size.pinned:
        cpu = cpu * 100 // max(overcommit.cpu, 1)
    guest = max(size.memory - size.reserved, 0)
    memory = guest if size.devices else size.memory * 100 // max(overcommit.memory, 1)
    return cpu, memory + overhead(size.cpus, guest, devices=size.devices)


def overhead(cpus: int, memory: int, *, devices: bool) -> int:
    """What KubeVirt adds to the memory of a VM, in bytes."""
    fixed = _PROCESSES + _IO_THREAD + _GRAPHICS + cpus * _PER_CPU
    return fixed + memory // _PAGE_TABLES + (GIB if devices else 0)
