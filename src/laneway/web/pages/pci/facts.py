"""What is known about a PCI device and its claim, as labels with values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.api import PCIDevice, PCIDeviceClaim, USBDevice, USBDeviceClaim
from laneway.core import ids, keys
from laneway.core.pci import Bar, Link
from laneway.views.explain import device as words
from laneway.web.visit import Visit

Fact = tuple[str, Sequence[str]]


def of_claim(visit: Visit, claim: PCIDeviceClaim | USBDeviceClaim | None) -> Iterator[Fact]:
    """What a claim says beyond its user and resource name."""
    texts = visit.texts
    if not isinstance(claim, PCIDeviceClaim):
        return
    yield texts("pci.driver_after"), [claim.status.kernel_driver_to_unbind]
    yield texts("pci.gpu_uuid"), [claim.status.gpu_uuid]
    is_skipped = keys.ANNOTATION_SKIP_BINDING in claim.metadata.annotations
    yield texts("pci.binding"), [texts("pci.binding_skipped")] if is_skipped else []


def of_device(visit: Visit, device: PCIDevice | USBDevice | None) -> Iterator[Fact]:
    """What the node's kernel says about a device."""
    texts = visit.texts
    if not isinstance(device, PCIDevice):
        return
    status = device.status
    vendor, product = status.vendor_id, status.device_id
    parts = (status.subsystem_vendor_id, status.subsystem_device_id)
    class_ = ids.pci_subclass(status.class_id) or ids.pci_class(status.class_id)
    yield texts("pci.vendor"), [_coded(vendor, ids.pci_vendor(vendor))]
    yield texts("pci.product"), [_coded(product, ids.pci_device(vendor, product))]
    board = ids.pci_subsystem(vendor, product, *parts)
    yield texts("pci.subsystem"), [_coded(":".join(parts).strip(":"), board)]
    yield texts("pci.class"), [_coded(status.class_id, class_)]
    yield texts("pci.driver"), [status.kernel_driver_in_use or texts("pci.no_driver")]
    numa = texts("pci.unknown") if status.numa_node is None else str(status.numa_node)
    yield texts("pci.numa"), [numa]
    if (found := status.link) is not None:
        as_read = Link(found.speed, found.width, found.max_speed, found.max_width)
        yield texts("pci.link"), [words.link(as_read)]
    bars = (Bar(one.index, one.size, one.io, one.prefetchable, one.wide) for one in status.bars)
    yield texts("pci.bars"), [words.bar(one) for one in bars]
    yield texts("pci.reset"), [", ".join(status.reset_methods) or texts("pci.no_reset")]
    if (sriov := status.sriov) is not None:
        yield (
            texts("pci.virtual"),
            [texts("pci.virtual_of", now=sriov.num_vfs, most=sriov.total_vfs)],
        )
    yield texts("pci.console"), [texts("pci.console_here")] if status.boot_vga else []


def _coded(code: str, name: str) -> str:
    return f"{code}  {name}" if name else code
