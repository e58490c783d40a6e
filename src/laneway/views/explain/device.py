"""What `laneway explain` says about a device of this host: an inventory in, a page out."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.core import ids, names
from laneway.core.inventory import Inventory, UsbDevice, VgpuFunction
from laneway.core.passthrough.iommu_group import other_group_members
from laneway.core.passthrough.usability import (
    Effect,
    Reason,
    judge_function,
    judge_usb,
    remedy,
    text,
    usable,
)
from laneway.core.pci import Bar, Link, PciAddress, PciFunction
from laneway.views import labels
from laneway.views.order import natural
from laneway.views.page import Page, Section, fact

_PER_ROW = 4
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def explain_pci(function: PciFunction, inventory: Inventory) -> Page:
    """Everything known about one PCI function."""
    vgpu = inventory.vgpu(function.address)
    return Page(
        f"{function.address}  {labels.pci(function)}",
        (
            _identity(function, inventory),
            _place(function, inventory),
            _hardware(function),
            _sriov(function, inventory),
            _vgpu(vgpu) if vgpu else _carried(function, inventory),
            _errors(str(function.address), inventory),
            _answer(judge_function(function, inventory), vgpu, names.resource_name_of(function)),
        ),
    )


def explain_usb(device: UsbDevice, inventory: Inventory) -> Page:
    """Everything known about one USB device."""
    return Page(
        f"{device.port}  {labels.usb(device)}",
        (
            Section(
                "Identity",
                (
                    fact("vendor", _named(device.vendor, ids.usb_vendor(device.vendor))),
                    fact(
                        "product",
                        _named(device.product, ids.usb_product(device.vendor, device.product)),
                    ),
                    fact("calls itself", device.product_name),
                    fact("serial", device.serial),
                    fact("class", _named(device.class_code, ids.usb_class(device.class_code))),
                ),
            ),
            Section(
                "Place",
                (
                    fact("port", device.port),
                    fact("bus and number", f"{device.bus} and {device.number}"),
                    fact("device node", device.device_path),
                    fact("controller", _other(device.controller, inventory)),
                ),
            ),
            _errors(device.port, inventory),
            _answer(judge_usb(device, inventory), None, ""),
        ),
    )


def _identity(function: PciFunction, inventory: Inventory) -> Section:
    product = ids.pci_device(function.vendor, function.device)
    subsystem = f"{function.subsystem_vendor}:{function.subsystem_device}".strip(":")
    interfaces = [
        f"{interface.name} ({interface.mac})" if interface.mac else interface.name
        for interface in inventory.interfaces
        if interface.address == function.address
    ]
    return Section(
        "Identity",
        (
            fact("vendor", _named(function.vendor, ids.pci_vendor(function.vendor))),
            fact("device", _named(function.device, product)),
            fact("board", _named(subsystem, labels.board(function))),
            fact("class", _named(function.class_code, labels.pci_class(function))),
            fact("interfaces", *interfaces),
            fact("driver", function.driver or "none"),
            fact("resource name", names.resource_name_of(function)),
            fact("boot display", "yes: the firmware's console is on it" * function.boot_vga),
        ),
    )


def _named(code: str, name: str) -> str:
    return f"{code}  {name}" if name else code


def _place(function: PciFunction, inventory: Inventory) -> Section:
    members = [
        f"with {member.address}  {labels.pci(member)}, {_held_by(member)}"
        for member in other_group_members(function, inventory)
    ]
    group = "none" if function.iommu_group is None else str(function.iommu_group)
    alone = " (alone in it)" if function.iommu_group is not None and not members else ""
    node = "not known" if function.numa_node is None else str(function.numa_node)
    return Section(
        "Place",
        (
            fact("IOMMU group", f"{group}{alone}", *members),
            fact("NUMA node", node),
            fact("behind", _other(function.upstream, inventory)),
            fact("link", link(function.link)),
        ),
    )


def _other(address: PciAddress | None, inventory: Inventory) -> str:
    """Another function by address and name; empty for none."""
    if address is None:
        return ""
    found = (f for f in inventory.functions if f.address == address)
    return " ".join([str(address), *map(labels.pci, found)])


def _rows(addresses: tuple[PciAddress, ...]) -> Iterator[str]:
    for start in range(0, len(addresses), _PER_ROW):
        yield "  ".join(map(str, addresses[start : start + _PER_ROW]))


def _held_by(member: PciFunction) -> str:
    return f"driver {member.driver}" if member.driver else "no driver"


def link(value: Link) -> str:
    """`x8 of x16, 8.0 GT/s PCIe of 16.0 GT/s PCIe`."""
    width = f"x{value.width}" if value.width else ""
    if width and value.max_width and value.max_width != value.width:
        width += f" of x{value.max_width}"
    speed = value.speed
    if speed and value.max_speed and value.max_speed != speed:
        speed += f" of {value.max_speed}"
    return ", ".join(part for part in (width, speed) if part)


def _hardware(function: PciFunction) -> Section:
    memory = sum(bar.size for bar in function.bars if not bar.io)
    return Section(
        "Hardware",
        (
            fact("BARs", *map(bar, function.bars)),
            fact("memory, all BARs", size(memory) if memory else ""),
            fact("reset methods", ", ".join(function.reset_methods) or "none"),
        ),
    )


def bar(value: Bar) -> str:
    """`0: 16 MiB memory, 64-bit, prefetchable`."""
    words = ["I/O ports" if value.io else "memory"]
    if not value.io:
        words += ["64-bit" if value.wide else "32-bit"]
        words += ["prefetchable"] * value.prefetchable
    return f"{value.index}: {size(value.size)} {', '.join(words)}"


def size(count: int) -> str:
    """`32 GiB`, cut to one decimal."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    whole, rest = divmod(count, 1 << 10 * power)
    tenth = rest * 10 >> 10 * power
    return f"{whole}.{tenth} {_UNITS[power]}" if tenth else f"{whole} {_UNITS[power]}"


def _sriov(function: PciFunction, inventory: Inventory) -> Section:
    possible = function.total_vfs
    count = "" if possible is None else f"{len(function.vfs)} of {possible} enabled"
    return Section(
        "SR-IOV",
        (
            fact("virtual function of", _other(function.physfn, inventory)),
            fact("virtual functions", count, *_rows(function.vfs)),
            fact("vGPUs", "its virtual functions can have vGPUs" * function.sriov_gpu),
        ),
    )


def _vgpu(vgpu: VgpuFunction) -> Section:
    configured = vgpu.configured
    creatable = {offered.name for offered in vgpu.creatable}
    other = [kind for kind in vgpu.supported if kind.name not in creatable]
    if configured is None:
        now = "none"
    else:
        now = f"{configured.type_name or 'unknown profile'} (type {configured.type_id})"
    return Section(
        "vGPU",
        (
            fact("framework", vgpu.framework),
            fact("card", str(vgpu.parent)),
            fact("configured", now),
            fact("UUID", configured.uuid if configured else ""),
            fact(
                "can be created now",
                *sorted((f"{k.name} (type {k.id})" for k in vgpu.creatable), key=natural),
            ),
            fact(
                "not possible now",
                *sorted((f"{k.name} (type {k.id})" for k in other), key=natural),
            ),
        ),
    )


def _carried(function: PciFunction, inventory: Inventory) -> Section:
    """The vGPUs of a card, when the function is one."""
    vgpus = inventory.vgpus_of(function.address)
    configured = [
        f"{vgpu.address}  {vgpu.configured.type_name or vgpu.configured.type_id}"
        for vgpu in vgpus
        if vgpu.configured
    ]
    free = {kind.name for vgpu in vgpus for kind in vgpu.creatable}
    return Section(
        "vGPUs",
        (
            fact("frameworks", ", ".join(sorted({vgpu.framework for vgpu in vgpus}))),
            fact("host driver", inventory.nvidia_driver if vgpus else ""),
            fact("configured", *(configured or ["none"] * bool(vgpus))),
            fact("can be created now", *sorted(free, key=natural)),
        ),
    )


def _errors(device: str, inventory: Inventory) -> Section:
    found = tuple(error.message for error in inventory.errors if error.device == device)
    return Section("Could not be read", lines=found)


def _answer(reasons: list[Reason], vgpu: VgpuFunction | None, resource: str) -> Section:
    lines: list[str] = []
    if usable(reasons):
        lines.append(f"Yes, as {resource}." if resource else "Yes.")
    else:
        lines.append("No." if vgpu is None else "Not the function itself.")
    if vgpu is not None and vgpu.configured is not None:
        name = names.vgpu_resource_name(vgpu.configured.type_name)
        lines.append(f"Its vGPU can, as {name}." if vgpu.configured.type_name else "Its vGPU can.")
    for reason in reasons:
        warning = "warning: " if reason.effect is Effect.WARNS else ""
        lines.append(f"- {warning}{text(reason)}")
        if advice := remedy(reason):
            lines.append(f"  {advice}")
    return Section("Can it be given to a VM?", lines=tuple(lines))
