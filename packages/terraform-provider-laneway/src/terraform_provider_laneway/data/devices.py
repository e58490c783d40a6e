"""`laneway_pci_devices`, `laneway_vgpu_devices` and `laneway_sriov_gpus`: what the nodes have."""

from __future__ import annotations

from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.cli import fleet
from laneway.controllers.devices.holder import holder
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.order import natural
from terraform_provider_laneway import gpus
from terraform_provider_laneway.data_source import DataSource
from terraform_provider_laneway.values import COUNTS, FLAG, TEXT, TEXTS, State, objects

_NODE = Attribute("node", TEXT, optional=True, description="Only devices of this node.")


class PciDevices(DataSource):
    """PCI devices."""

    name: ClassVar[str] = "pci_devices"
    about: ClassVar[str] = "The PCI devices of the nodes, and which of them are claimed."
    attributes: ClassVar[tuple[Any, ...]] = (
        _NODE,
        Attribute(
            "vendor_id", TEXT, optional=True, description="Only of this vendor: `10de` is NVIDIA."
        ),
        Attribute("device_id", TEXT, optional=True, description="Only with this device id."),
        Attribute(
            "resource_name",
            TEXT,
            optional=True,
            description="Only those that VMs request by this resource.",
        ),
        Attribute(
            "claimable",
            FLAG,
            optional=True,
            description="`true`: only those that can be claimed; `false`: only others.",
        ),
        Attribute(
            "devices",
            objects(
                name=TEXT,
                node=TEXT,
                address=TEXT,
                vendor_id=TEXT,
                device_id=TEXT,
                class_id=TEXT,
                description=TEXT,
                driver=TEXT,
                iommu_group=TEXT,
                resource_name=TEXT,
                claimable=FLAG,
                claimed=FLAG,
                user_name=TEXT,
            ),
            computed=True,
            description="The devices, by node and address. `claimed` and `user_name` are of its "
            "claim, `driver` is what has it now.",
        ),
    )

    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        claims = {
            one.metadata.name: one.spec.user_name
            for one in await fleet.readable(client, served(PCIDeviceClaim), unknown)
        }
        devices = []
        for one in await fleet.readable(client, served(PCIDevice), unknown):
            status, name = one.status, one.metadata.name
            devices.append(
                {
                    "name": name,
                    "node": status.node_name,
                    "address": status.address,
                    "vendor_id": status.vendor_id,
                    "device_id": status.device_id,
                    "class_id": status.class_id,
                    "description": status.description,
                    "driver": status.kernel_driver_in_use,
                    "iommu_group": status.iommu_group,
                    "resource_name": status.resource_name,
                    "claimable": bool(status.claimable),
                    "claimed": name in claims,
                    "user_name": claims.get(name, ""),
                }
            )
        wanted = ("node", "vendor_id", "device_id", "resource_name", "claimable")
        return {"devices": _by_place(_matching(devices, config, wanted))}


class VgpuDevices(DataSource):
    """Virtual functions of GPUs."""

    name: ClassVar[str] = "vgpu_devices"
    about: ClassVar[str] = "The virtual functions of the enabled GPUs, and the vGPUs on them."
    attributes: ClassVar[tuple[Any, ...]] = (
        _NODE,
        Attribute(
            "gpu",
            TEXT,
            optional=True,
            description="Only of this GPU: the name of its SRIOVGPUDevice, or `NODE/ADDRESS`.",
        ),
        Attribute(
            "resource_name",
            TEXT,
            optional=True,
            description="Only vGPUs that VMs request by this resource.",
        ),
        Attribute(
            "enabled",
            FLAG,
            optional=True,
            description="`true`: only those that are to have a vGPU; `false`: only others.",
        ),
        Attribute(
            "devices",
            objects(
                name=TEXT,
                node=TEXT,
                address=TEXT,
                gpu=TEXT,
                enabled=FLAG,
                profile=TEXT,
                resource_name=TEXT,
                uuid=TEXT,
                holder=TEXT,
                available_profiles=TEXTS,
            ),
            computed=True,
            description="The functions, by node and address. `holder` is the VM or pod that has "
            "the vGPU, `available_profiles` is what can be configured there now.",
        ),
    )

    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        gpu = config.get("gpu")
        only = (await gpus.find(client, gpu)).name if gpu is not None else None
        devices = []
        for one in await fleet.readable(client, served(VGPUDevice), unknown):
            parent = one.metadata.labels.get(keys.LABEL_PARENT_GPU, "")
            if only not in (None, parent):
                continue
            devices.append(
                {
                    "name": one.metadata.name,
                    "node": one.spec.node_name,
                    "address": one.spec.address,
                    "gpu": parent,
                    "enabled": one.spec.enabled,
                    "profile": one.status.configure_vgpu_type_name,
                    "resource_name": one.status.resource_name,
                    "uuid": one.status.uuid,
                    "holder": holder(one.status.allocation),
                    "available_profiles": sorted(one.status.available_types, key=natural),
                }
            )
        return {
            "devices": _by_place(_matching(devices, config, ("node", "resource_name", "enabled")))
        }


class SriovGpus(DataSource):
    """GPUs that can be shared."""

    name: ClassVar[str] = "sriov_gpus"
    about: ClassVar[str] = "The GPUs that can be shared, and the vGPUs that they have room for."
    attributes: ClassVar[tuple[Any, ...]] = (
        _NODE,
        Attribute(
            "enabled",
            FLAG,
            optional=True,
            description="`true`: only those with virtual functions; `false`: only others.",
        ),
        Attribute(
            "gpus",
            objects(
                name=TEXT,
                node=TEXT,
                address=TEXT,
                board=TEXT,
                enabled=FLAG,
                mode=TEXT,
                vgpu_devices=TEXTS,
                configured=COUNTS,
                room=COUNTS,
                reason=TEXT,
                message=TEXT,
            ),
            computed=True,
            description="The GPUs, by node and address. `configured` are its vGPUs by profile, "
            "`room` is how many more of each profile fit. `reason` and `message` are of the "
            "condition Ready.",
        ),
    )

    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        found, seen = [], await fleet.look(client)
        unknown += seen.unreadable
        for gpu in seen.gpus:
            status, ready = gpu.device.status, gpu.ready
            found.append(
                {
                    "name": gpu.name,
                    "node": gpu.node,
                    "address": gpu.address,
                    "board": gpu.board,
                    "enabled": gpu.device.spec.enabled,
                    "mode": status.mode,
                    "vgpu_devices": list(status.vgpu_devices),
                    "configured": dict(status.configured),
                    "room": dict(status.fits),
                    "reason": ready.reason if ready is not None else "",
                    "message": ready.message if ready is not None else "",
                }
            )
        return {"gpus": _by_place(_matching(found, config, ("node", "enabled")))}


def _matching(found: list[State], config: State, attributes: tuple[str, ...]) -> list[State]:
    """Those that have what the configuration says, where it says something."""
    wanted = {name: config[name] for name in attributes if config.get(name) is not None}
    return [one for one in found if all(one[name] == value for name, value in wanted.items())]


def _by_place(found: list[State]) -> list[State]:
    return sorted(found, key=lambda one: (natural(one["node"]), one["address"], one["name"]))
