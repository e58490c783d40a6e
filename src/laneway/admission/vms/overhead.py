"""The memory that a pod needs on its node because devices are passed through to its VM.

KubeVirt adds 1 GiB to the memory of the pod of a VM that has any VFIO device, however many and
however large (`GetMemoryOverhead`; the number is libvirt's allowance for the MMIO space of a PC, in
the limit of locked memory). The ranges of a device are not memory of the node themselves, but the
tables that map them are, and the kernel charges those to the pod. Assumed here:

- every byte of every memory range is mapped three times: into QEMU (page tables of the process),
  into the guest (EPT or NPT), and into the IOMMU, where QEMU maps ranges so that devices reach each
  other;
- each time by 8 bytes for a page of 4 KiB, so 1/512 of the size; levels above and huge pages, which
  Linux uses for such ranges from 6.12 on, are left out: that errs on the side of the pod;
- KubeVirt's 1 GiB goes for other things (the same tables for the guest's memory, of which KubeVirt
  counts one), so what is worked out here comes on top.

A GPU with a range of 128 GiB takes 768 MiB so, and eight of them 6 GiB. Below 64 MiB nothing is
added: that is lost in KubeVirt's allowance.

A mediated device has no ranges of its own that are documented. Of a resource that many devices go
by, the first one stands for all: they are of one model.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.admission.vms.devices import named
from laneway.admission.world import RESOURCE, World
from laneway.api import PCIDevice
from laneway.kube.kubevirt import DeviceRequest

MIB = 1 << 20
KUBEVIRTS = 1024 * MIB
"""What KubeVirt adds by itself."""
_MAPPINGS = 3
_BYTES_PER_TABLE = 512
"""Bytes that one byte of a page table maps."""
_LEAST = 64 * MIB


def overhead(requests: Iterable[DeviceRequest], world: World) -> int:
    """Bytes that the pod needs beyond what KubeVirt adds; whole MiB, 0 for too little to count."""
    mapped = sum(_mapped(device) for one in requests if (device := _device(one, world)))
    tables = mapped * _MAPPINGS // _BYTES_PER_TABLE
    return -(-tables // MIB) * MIB if tables >= _LEAST else 0


def _device(request: DeviceRequest, world: World) -> PCIDevice | None:
    found = named(world, request)
    if found is not None:
        return None if found.is_mediated else found.pci
    return world.pci_devices.first(RESOURCE, request.device_name)


def _mapped(device: PCIDevice) -> int:
    return sum(max(bar.size, 0) for bar in device.status.bars if not bar.io)


def as_quantity(size: int) -> str:
    """Whole MiB as Kubernetes writes them."""
    return f"{size // (1 << 30)}Gi" if size % (1 << 30) == 0 else f"{size // MIB}Mi"
