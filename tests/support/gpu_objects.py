"""Objects of one GPU of a node, as a cluster has them."""

from __future__ import annotations

from typing import Any

import msgspec

from laneway.api import (
    Condition,
    LayoutGpu,
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    VGPULayout,
    VGPULayoutSpec,
    VGPULayoutStatus,
)
from laneway.views.gpus import Gpu, assemble

ADDRESS = "0000:08:00.0"
NAME = "node1-000008000"
Q4 = "NVIDIA A2-4Q"


def device(
    *, enabled: bool = True, mode: str = "", answered: int = 1, **status: Any
) -> SRIOVGPUDevice:
    ready = Condition(type="Ready", status="True", reason="Enabled", observed_generation=answered)
    return SRIOVGPUDevice(
        metadata=ObjectMeta(name=NAME, generation=1),
        spec=SRIOVGPUDeviceSpec(address=ADDRESS, node_name="node1", enabled=enabled, mode=mode),
        status=SRIOVGPUDeviceStatus(**{"conditions": [ready], "mode": "SameSize", **status}),
    )


def vgpu(number: int, desired: str = "", carried: str = "", node: str = "node1") -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name=f"{node}-00000800{number}"),
        spec=VGPUDeviceSpec(
            address=f"0000:08:00.{number}",
            node_name=node,
            parent_gpu_device_address=ADDRESS,
            enabled=bool(desired),
            vgpu_type_name=desired,
        ),
        status=VGPUDeviceStatus(
            vgpu_status="vGPUConfigured" if carried else "", configure_vgpu_type_name=carried
        ),
    )


def card(device_id: str = "25b6", subsystem: str = "157e") -> PCIDevice:
    return PCIDevice(
        metadata=ObjectMeta(name=NAME),
        status=PCIDeviceStatus(
            device_id=device_id,
            subsystem_device_id=subsystem,
            description="3D controller: NVIDIA Corporation GA107GL [A2 / A16]",
        ),
    )


def layout(name: str, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> VGPULayout:
    return VGPULayout(
        metadata=ObjectMeta(name=name, creation_timestamp=created, generation=1),
        spec=VGPULayoutSpec(**spec),
    )


def done_by(name: str) -> VGPULayout:
    entry = LayoutGpu(name="node1-000008000", node_name="node1", state="Done")
    return msgspec.structs.replace(layout(name), status=VGPULayoutStatus(gpus=[entry]))


def one(*vgpus: VGPUDevice, of: SRIOVGPUDevice | None = None, **more: Any) -> Gpu:
    [found] = assemble([of or device()], vgpus, **more)
    return found
