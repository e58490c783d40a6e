"""PCIDevice: every PCI function of the node except PCI bridges, as the contract has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.api import (
    Condition,
    ObjectMeta,
    PCIDevice,
    PCIDeviceBar,
    PCIDeviceLink,
    PCIDeviceSriov,
    PCIDeviceStatus,
)
from laneway.controllers.devices.family import READ_FAILED, read_failed, ready, unreadable
from laneway.core import keys, names
from laneway.core.inventory import Inventory
from laneway.core.passthrough import usability
from laneway.core.passthrough.iommu_group import by_group
from laneway.core.pci import Link, PciAddress, PciFunction
from laneway.core.refusals import DeviceNotFound, ResourceNameInvalid
from laneway.core.vgpu.offer import sriov_off


def wanted(
    inventory: Inventory, node: str, among: Collection[PciAddress] | None = None
) -> Mapping[str, PCIDevice]:
    """Every function but PCI bridges, which cannot be passed to anything.

    `among`: only those of these functions.
    """
    functions = [one for one in inventory.functions if among is None or one.address in among]
    judged = usability.judge_some(inventory, functions)
    groups = _groups(inventory, functions)
    nics = {f.address: f for f in inventory.functions if f.class_code.startswith("02")}
    interfaces = {interface.address: interface.name for interface in inventory.interfaces}
    sriov_gpus = {f.address for f in inventory.functions if f.sriov_gpu}
    objects = {}
    for function in functions:
        if function.is_bridge:
            continue
        parent = ("", "")
        if function.physfn in sriov_gpus:
            parent = keys.LABEL_PARENT_GPU, names.pci_object_name(node, function.physfn)
        elif function.physfn in nics and function.physfn in interfaces:
            name = names.network_object_name(node, interfaces[function.physfn])
            parent = keys.LABEL_PARENT_NETWORK_DEVICE, name
        wanted = _object(
            function,
            node,
            _Circumstances(
                parent=parent,
                reasons=tuple(judged[function.address]),
                group=groups.get(function.iommu_group, ()),
                critical=inventory.critical.get(function.address, ()),
                failed=read_failed(inventory, function.address) if inventory.errors else "",
            ),
        )
        objects[wanted.metadata.name] = wanted
    return objects


class _Circumstances(NamedTuple):
    """What an object tells that its function alone does not show."""

    parent: tuple[str, str]
    """The label that names the PF's object, and that name; both empty where there is none."""
    reasons: tuple[usability.Reason, ...]
    group: tuple[str, ...]
    critical: tuple[str, ...]
    failed: str


@lru_cache(maxsize=8192)
def _object(function: PciFunction, node: str, around: _Circumstances) -> PCIDevice:
    """One object. Remembered, because one of hundreds differs from one scan to the next."""
    label, of = around.parent
    return PCIDevice(
        metadata=ObjectMeta(
            name=names.pci_object_name(node, function.address),
            labels={keys.LABEL_NODE: node} | ({label: of} if label else {}),
            annotations={keys.ANNOTATION_DRIVER: function.driver},
        ),
        status=_status(function, node, around),
    )


def _groups(
    inventory: Inventory, functions: Iterable[PciFunction]
) -> dict[int | None, tuple[str, ...]]:
    return {
        group: tuple(str(one.address) for one in members)
        for group, members in by_group(inventory, functions).items()
    }


def _status(function: PciFunction, node: str, around: _Circumstances) -> PCIDeviceStatus:
    reasons = around.reasons
    claimable = usability.usable(reasons)
    return PCIDeviceStatus(
        address=str(function.address),
        vendor_id=function.vendor,
        device_id=function.device,
        class_id=function.class_code[:4],
        iommu_group="" if function.iommu_group is None else str(function.iommu_group),
        node_name=node,
        resource_name=names.resource_name_of(function),
        description=names.pci_description(function),
        kernel_driver_in_use=function.driver,
        subsystem_vendor_id=function.subsystem_vendor,
        subsystem_device_id=function.subsystem_device,
        numa_node=function.numa_node,
        iommu_group_members=list(around.group),
        sriov=_sriov(function),
        physical_function="" if function.physfn is None else str(function.physfn),
        reset_methods=list(function.reset_methods),
        bars=[
            PCIDeviceBar(
                index=bar.index,
                size=bar.size,
                prefetchable=bar.prefetchable,
                wide=bar.wide,
                io=bar.io,
            )
            for bar in function.bars
        ],
        link=_link(function.link),
        boot_vga=function.boot_vga,
        claimable=claimable,
        critical=list(around.critical),
        conditions=[
            _observed(around.failed),
            Condition(
                type="Claimable",
                status="True" if claimable else "False",
                reason="Free" if claimable else reasons[0].kind.value,
                message=usability.short(reasons) or "The node does not need the device.",
            ),
            *_shareable(function),
        ],
    )


def _shareable(function: PciFunction) -> list[Condition]:
    """Of GPUs whose model can be shared, whether this one can be as it is set up."""
    if function.sriov_gpu:
        text = f"It can have {function.total_vfs} virtual functions for vGPUs."
        return [Condition(type="Shareable", status="True", reason="SriovEnabled", message=text)]
    if not sriov_off(function):
        return []
    text = (
        "GPUs of this model can have virtual functions for vGPUs; this one shows no SR-IOV. "
        "Enable it in the firmware of the node and of the card, on workstation cards also disable "
        "the display with NVIDIA's displaymodeselector. Then reboot the node."
    )
    return [Condition(type="Shareable", status="False", reason="SriovDisabled", message=text)]


def _observed(failed: str) -> Condition:
    if failed:
        return ready(READ_FAILED, f"Not everything could be read: {failed}.", status=False)
    return ready("Observed", "The status is what the kernel shows.")


def _sriov(function: PciFunction) -> PCIDeviceSriov | None:
    if function.total_vfs is None:
        return None
    return PCIDeviceSriov(total_vfs=function.total_vfs, num_vfs=function.num_vfs)


def _link(link: Link) -> PCIDeviceLink | None:
    if link == Link():
        return None
    return PCIDeviceLink(
        speed=link.speed, width=link.width, max_speed=link.max_speed, max_width=link.max_width
    )


def keep(stored: PCIDevice, inventory: Inventory) -> bool:
    """A device that could not be read is not gone."""
    return unreadable(inventory, [stored.status.address])


def missing(stored: PCIDevice) -> PCIDeviceStatus:
    """The status of a claimed device that is not there: what it was, and that it is gone."""
    gone = DeviceNotFound(stored.status.address)
    free = Condition(type="Claimable", status="False", reason=gone.reason, message=gone.words)
    return msgspec.structs.replace(
        stored.status,
        kernel_driver_in_use="",
        claimable=False,
        conditions=[ready(gone.reason, gone.words, status=False), free],
    )


def called(observed: PCIDeviceStatus, resource: str | ResourceNameInvalid) -> PCIDeviceStatus:
    """The status of a device that pods request by another name than that of its model."""
    if isinstance(resource, ResourceNameInvalid):
        text = f"{resource.words} Until then its resource name is {observed.resource_name}."
        conditions = [
            ready(resource.reason, text, status=False) if one.type == "Ready" else one
            for one in observed.conditions
        ]
        return msgspec.structs.replace(observed, conditions=conditions)
    if resource == observed.resource_name:
        return observed
    return msgspec.structs.replace(observed, resource_name=resource)
