"""What `laneway devices` shows: an inventory as rows, each card with what it carries below it.

GPUs come first, then network cards that can be split: these are given to VMs most often. Virtual
functions are counted, not listed, unless --all is given: a host may have a thousand, all alike. A
configured vGPU is always listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from laneway.cli.table import Column, Row, Section
from laneway.core import names
from laneway.core.gpu.vendors import gpu_of
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.passthrough.iommu_group import system_bridge
from laneway.core.passthrough.usability import (
    USB_HUB_CLASS,
    judge_all,
    judge_usb,
    usable,
)
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.phrases import short_name
from laneway.core.situation import Holder
from laneway.views import labels
from laneway.views.order import natural
from laneway.views.verdict import verdict

COLUMNS = (
    Column("ADDRESS"),
    Column("IDS", wide=True),
    Column("DEVICE"),
    Column("DRIVER"),
    Column("IOMMU"),
    Column("NUMA", spare=True),
    Column("RESOURCE", wide=True),
    Column("USED BY", wide=True),
    Column("CAN BE GIVEN TO A VM"),
)

Users = Mapping[str, tuple[Holder, ...]]
"""Who uses devices now, by address or USB port."""

_MEMBERS_NAMED = 2


def overview(
    inventory: Inventory, users: Users | None = None, *, everything: bool = False
) -> list[Section]:
    """The sections that have rows; `everything` adds the machine's own parts and every VF."""
    view = _View(inventory, users or {}, everything=everything)
    gpus, nics, others, parts = [], [], [], []
    for function in inventory.functions:
        if function.physfn in view.functions:
            continue
        if _is_part_of_the_machine(function):
            parts.append(function)
        elif _is_accelerator(function):
            gpus.append(function)
        elif function.class_code.startswith("02") and function.total_vfs:
            nics.append(function)
        else:
            others.append(function)
    sections = [
        Section("GPUs and accelerators", tuple(view.rows(gpus))),
        Section("Network cards with SR-IOV", tuple(view.rows(nics))),
        Section("Other devices", tuple(view.rows(others))),
        Section("USB devices", tuple(view.usb_rows())),
        Section("Parts of the host", tuple(view.rows(parts)) if everything else ()),
    ]
    return [section for section in sections if section.rows]


def _is_part_of_the_machine(function: PciFunction) -> bool:
    """Bridges, and what chipsets and processors show of themselves on a root bus.

    A server has a hundred of the latter: memory controllers, counters, DMA channels, SMBus.
    """
    if system_bridge(function.class_code):
        return True
    built_in = function.class_code.startswith(("05", "08", "0c05", "1101"))
    return built_in and function.upstream is None


def _is_accelerator(function: PciFunction) -> bool:
    """Graphics, and class 12, as which AMD's and others' compute cards appear."""
    return function.is_gpu or gpu_of(function) is not None or function.class_code.startswith("12")


class _View:
    """The inventory by address, and what was judged, once for all rows."""

    def __init__(self, inventory: Inventory, users: Users, *, everything: bool) -> None:
        self.inventory = inventory
        self.users = users
        self.everything = everything
        self.functions = {function.address: function for function in inventory.functions}
        self.verdicts = judge_all(inventory)
        self.interfaces: dict[PciAddress, list[str]] = defaultdict(list)
        for interface in inventory.interfaces:
            self.interfaces[interface.address].append(interface.name)
        self.vgpus: dict[PciAddress, list[VgpuFunction]] = defaultdict(list)
        for vgpu in inventory.vgpus:
            self.vgpus[vgpu.parent].append(vgpu)
        self.vfs: dict[PciAddress, list[PciFunction]] = defaultdict(list)
        self.groups: dict[int, list[PciFunction]] = defaultdict(list)
        for function in inventory.functions:
            if function.physfn is not None:
                self.vfs[function.physfn].append(function)
            if function.iommu_group is not None:
                self.groups[function.iommu_group].append(function)

    def rows(self, functions: Iterable[PciFunction]) -> Iterator[Row]:
        for function in functions:
            vgpus = self.vgpus[function.address]
            carried = {v.address: v.configured.type_name for v in vgpus if v.configured}
            notes = self._vgpu_notes(function, vgpus) if vgpus else self._vf_notes(function)
            yield self._row(function, self._device(function), notes=notes)
            vfs = {vf.address: vf for vf in self.vfs[function.address]}
            for vgpu in vgpus:
                vfs.setdefault(vgpu.address, self.functions.get(vgpu.address, function))
            for address, vf in sorted(vfs.items()):
                if address in carried:
                    profile = carried[address] or "of an unknown profile"
                    yield self._row(vf, f"vGPU {profile}", child=True)
                elif self.everything and address != function.address:
                    yield self._row(vf, self._device(vf), child=True)

    def _row(
        self,
        function: PciFunction,
        device: str,
        *,
        notes: tuple[str, ...] = (),
        child: bool = False,
    ) -> Row:
        cells = (
            str(function.address),
            f"{function.vendor}:{function.device}",
            device,
            function.driver,
            self._group(function),
            "" if function.numa_node is None else str(function.numa_node),
            names.resource_name_of(function),
            self._users(str(function.address)),
            verdict(self.verdicts[function.address]),
        )
        return Row(cells, notes, child)

    def _users(self, device: str) -> str:
        """The processes; what the kernel itself uses is critical to the node, and told so."""
        return "; ".join(one.text for one in self.users.get(device, ()) if one.kind == "process")

    def _device(self, function: PciFunction) -> str:
        interfaces = self.interfaces[function.address]
        device = labels.pci(function)
        return f"{device} ({', '.join(interfaces)})" if interfaces else device

    def _group(self, function: PciFunction) -> str:
        if function.iommu_group is None:
            return ""
        members = [
            str(member.address)
            for member in self.groups[function.iommu_group]
            if member.address != function.address and not member.is_bridge
        ]
        if not members:
            return str(function.iommu_group)
        named = ", ".join(members) if len(members) <= _MEMBERS_NAMED else f"{len(members)} more"
        return f"{function.iommu_group} (with {named})"

    def _vgpu_notes(self, card: PciFunction, vgpus: list[VgpuFunction]) -> tuple[str, ...]:
        carrying = sum(vgpu.configured is not None for vgpu in vgpus)
        where = f"VFs {len(vgpus)}" if card.vfs else "vGPUs"
        free = len(vgpus) - carrying
        types = {offered.name for vgpu in vgpus for offered in vgpu.creatable}
        offered = ", ".join(sorted({short_name(name) for name in types}, key=natural))
        return (
            f"{where}: {carrying} with a vGPU, {free} free",
            f"can be created now: {offered}" if offered else "no other vGPU can be created now",
        )

    def _vf_notes(self, card: PciFunction) -> tuple[str, ...]:
        if not card.total_vfs:
            return ()
        vfs = self.vfs[card.address]
        if not vfs:
            need = "; vGPUs need them" if card.sriov_gpu else ""
            return (f"VFs 0 of {card.total_vfs}{need}",)
        givable = sum(usable(self.verdicts[vf.address]) for vf in vfs)
        return (f"VFs {len(vfs)} of {card.total_vfs}: {givable} can be given to a VM",)

    def usb_rows(self) -> Iterator[Row]:
        for device in self.inventory.usb:
            if device.class_code == USB_HUB_CLASS and not self.everything:
                continue
            description = labels.usb(device)
            answer = verdict(judge_usb(device, self.inventory))
            ids = f"{device.vendor}:{device.product}"
            users = self._users(device.port)
            yield Row((device.port, ids, description, "", "", "", "", users, answer))
