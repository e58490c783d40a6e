"""What vCenter is to do with VMs, as its own specifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from laneway.core.vsphere.inventory.vms import Attached, Backing, DynamicBacking, Fault, VgpuBacking
from laneway.core.vsphere.spec.requests import PciIds
from laneway.core.vsphere.spec.resources import ResourceAllocation
from laneway.vsphere.port import (
    Addition,
    Clone,
    FaultError,
    NotFoundInVCenterError,
    Reconfiguration,
)
from laneway.vsphere.vcenter.inventory_paths import few, only
from laneway.vsphere.vcenter.lookup import Target
from laneway.vsphere.vcenter.properties import Properties, ref_of
from laneway.vsphere.vcenter.pyvmomi import vim

TEMPLATE_PATHS = ("config.hardware.device", "snapshot")

_device = vim.vm.device
_Operation = _device.VirtualDeviceSpec.Operation
_Passthrough = _device.VirtualPCIPassthrough

_LINKED = vim.vm.RelocateSpec.DiskMoveOptions.createNewChildDiskBacking
_FULL = vim.vm.RelocateSpec.DiskMoveOptions.moveAllDiskBackingsAndAllowSharing


def clone_spec(clone: Clone, target: Target, template: Properties, cards: list[Any]) -> Any:
    """`template`: its `TEMPLATE_PATHS`; `cards`: backings of the networks."""
    snapshot = _snapshot(clone, template)
    devices = template.get("config.hardware.device") or ()
    changes = []
    if clone.disk_gib or clone.additional_disks_gib:
        changes += _disks(clone, devices, linked=snapshot is not None)
    if cards:
        changes += _cards(devices, cards, clone.macs)
    return vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(
            folder=target.folder,
            pool=target.pool,
            datastore=target.datastore,
            host=target.host,
            diskMoveType=_LINKED if snapshot is not None else _FULL,
        ),
        snapshot=snapshot,
        powerOn=False,
        template=False,
        config=vim.vm.ConfigSpec(
            instanceUuid=clone.instance_uuid,
            numCPUs=clone.cpus,
            numCoresPerSocket=clone.cores_per_socket or None,
            memoryMB=clone.memory_mib,
            flags=vim.vm.FlagInfo(diskUuidEnabled=True),
            vAppConfigRemoved=True,
            memoryReservationLockedToMax=True if clone.lock_memory else None,
            nestedHVEnabled=True if clone.nested else None,
            cpuAllocation=_resource_allocation(clone.cpu),
            memoryAllocation=_resource_allocation(clone.memory),
            extraConfig=options(clone.extra),
            deviceChange=changes,
        ),
    )


def options(extra: Mapping[str, str]) -> list[Any]:
    return [vim.option.OptionValue(key=key, value=value) for key, value in extra.items()]


def _snapshot(clone: Clone, template: Properties) -> Any:
    """None: a full clone, which one of a template without snapshots always is, as for CAPV."""
    if not clone.linked:
        return None
    info = template.get("snapshot")
    if not clone.snapshot:
        return info.currentSnapshot if info else None
    there = list(_tree(info.rootSnapshotList)) if info else []
    fitting = [node for node in there if clone.snapshot in (node.name, ref_of(node.snapshot))]
    return only(
        fitting,
        [f"{node.name} ({ref_of(node.snapshot)})" for node in fitting],
        [node.name for node in there],
        f"snapshot {clone.snapshot!r} of {clone.template}",
    ).snapshot


def _tree(nodes: Iterable[Any]) -> Iterable[Any]:
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        left += node.childSnapshotList


def _resource_allocation(desired: ResourceAllocation) -> Any:
    if desired == ResourceAllocation():
        return None
    shares = desired.shares and vim.SharesInfo(
        level=vim.SharesInfo.Level.custom, shares=desired.shares
    )
    return vim.ResourceAllocationInfo(
        reservation=desired.reservation, limit=desired.limit, shares=shares
    )


def _disks(clone: Clone, devices: Iterable[Any], *, linked: bool) -> list[Any]:
    """The disks grow; those of a linked clone cannot."""
    disks = [device for device in devices if isinstance(device, _device.VirtualDisk)]
    sizes = (clone.disk_gib, *clone.additional_disks_gib)
    if len(disks) < len(sizes):
        raise NotFoundInVCenterError(
            f"the template {clone.template} does not have as many disks ({len(disks)}) as sizes"
            f" are given ({len(sizes)})"
        )
    grown = (_grown(disk, size) for disk, size in zip(disks, sizes, strict=False) if size)
    changes = [change for each in grown for change in each]
    return [] if linked else changes


def _grown(disk: Any, size: int) -> list[Any]:
    requested = size << 20
    if disk.capacityInKB > requested:
        raise FaultError(
            Fault(
                "InvalidDiskSize",
                f"a disk of {size} GiB is requested, but that of the template has"
                f" {disk.capacityInKB / (1 << 20):g} GiB, and disks do not shrink",
            )
        )
    if disk.capacityInKB == requested:
        return []
    disk.capacityInKB = requested
    disk.capacityInBytes = requested << 10
    return [_device.VirtualDeviceSpec(operation=_Operation.edit, device=disk)]


def _cards(devices: Iterable[Any], backings: list[Any], macs: Sequence[str]) -> list[Any]:
    """The network cards of the template give way to one for each network."""
    changes = [
        _device.VirtualDeviceSpec(operation=_Operation.remove, device=device)
        for device in devices
        if isinstance(device, _device.VirtualEthernetCard)
    ]
    for at, (backing, mac) in enumerate(zip_longest(backings, macs[: len(backings)])):
        card = _device.VirtualVmxnet3(
            key=-100 - at,
            backing=backing,
            addressType="manual" if mac else "generated",
            macAddress=mac or None,
            connectable=_device.VirtualDevice.ConnectInfo(
                startConnected=True, allowGuestControl=True, connected=True
            ),
        )
        changes.append(_device.VirtualDeviceSpec(operation=_Operation.add, device=card))
    return changes


def card_backing(network: Any, props: Properties, switches: Mapping[str, Properties]) -> Any:
    """Of a port group of a distributed switch, or of any other network, by its name."""
    card = _device.VirtualEthernetCard
    if not isinstance(network, vim.dvs.DistributedVirtualPortgroup):
        if isinstance(network, vim.OpaqueNetwork):
            summary = props["summary"]
            return card.OpaqueNetworkBackingInfo(
                opaqueNetworkId=summary.opaqueNetworkId, opaqueNetworkType=summary.opaqueNetworkType
            )
        return card.NetworkBackingInfo(network=network, deviceName=props["name"])
    switch = switches[ref_of(props["config"].distributedVirtualSwitch)]
    return card.DistributedVirtualPortBackingInfo(
        port=vim.dvs.PortConnection(portgroupKey=props["key"], switchUuid=switch["uuid"])
    )


def config_spec(change: Reconfiguration) -> Any:
    """All changes in one task."""
    spec = vim.vm.ConfigSpec(
        deviceChange=[
            *(
                _device.VirtualDeviceSpec(operation=_Operation.remove, device=_attached(each))
                for each in change.remove
            ),
            *(
                _device.VirtualDeviceSpec(operation=_Operation.add, device=_added(each))
                for each in change.add
            ),
        ],
        extraConfig=options(change.extra),
        memoryReservationLockedToMax=change.lock_memory,
        cpuHotAddEnabled=change.cpu_hot_add,
    )
    groups = {each.group_key: each.group for each in change.add if each.group}
    if groups:
        spec.deviceGroups = vim.vm.VirtualDeviceGroups(
            deviceGroup=[
                vim.vm.VirtualDeviceGroups.VendorDeviceGroup(
                    groupInstanceKey=key, deviceGroupName=name
                )
                for key, name in groups.items()
            ]
        )
    return spec


def _attached(device: Attached) -> Any:
    return _Passthrough(key=device.key, backing=_backing(device.backing))


def _added(each: Addition) -> Any:
    device = _Passthrough(key=each.key, backing=_backing(each.backing))
    if each.group:
        device.deviceGroupInfo = _device.VirtualDevice.DeviceGroupInfo(
            groupInstanceKey=each.group_key, sequenceId=each.sequence
        )
    return device


def _backing(backing: Backing) -> Any:
    match backing:
        case VgpuBacking(profile=profile):
            return _Passthrough.VmiopBackingInfo(vgpu=profile)
        case DynamicBacking(allowed=allowed, label=label):
            return _Passthrough.DynamicBackingInfo(
                deviceName="",
                allowedDevice=[_allowed(ids) for ids in allowed],
                customLabel=label or None,
            )
        case _:
            return None  # a fixed device is only ever removed, by its key


def _allowed(ids: PciIds) -> Any:
    return _Passthrough.AllowedDevice(
        vendorId=ids.vendor,
        deviceId=ids.device,
        subVendorId=ids.sub_vendor,
        subDeviceId=ids.sub_device,
        revisionId=ids.revision,
    )


def group_spec(cluster: Properties, group: str, vm: Any) -> Any:
    """The VM group with one more member."""
    config = cluster.get("configurationEx")
    groups = [
        each for each in (config.group if config else ()) if isinstance(each, vim.cluster.VmGroup)
    ]
    for each in groups:
        if each.name == group:
            members = [member for member in each.vm if ref_of(member) != ref_of(vm)]
            return vim.cluster.ConfigSpecEx(
                groupSpec=[
                    vim.cluster.GroupSpec(
                        operation=vim.option.ArrayUpdateSpec.Operation.edit,
                        info=vim.cluster.VmGroup(name=group, vm=[*members, vm]),
                    )
                ]
            )
    raise NotFoundInVCenterError(
        f"there is no VM group {group!r} in {cluster.get('name', 'the cluster')}"
        + (f"; there is {few(each.name for each in groups)}" if groups else "")
    )
