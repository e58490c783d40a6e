"""Layouts as people request them, and what has become of them on simulated nodes."""

from __future__ import annotations

import json
from typing import Any

from laneway.api import (
    VGPULayout,
)
from laneway.controllers.timing import Timing
from laneway.core.hardware_change import REASON
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.resource import served

A2 = "node1-000008000"
VFS = [str(PciAddress(0, 8, n // 8, n % 8)) for n in range(4, 20)]
VGPUS = [f"node1-000008{vf[8:10]}{vf[11]}" for vf in VFS]
Q1, Q4, Q8 = (f"NVIDIA A2-{size}Q" for size in (1, 4, 8))
MANAGE = "/usr/lib/nvidia/sriov-manage"


async def make(cluster: Any, name: str, **spec: Any) -> Any:
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPULayout",
        "metadata": {"name": name},
        "spec": spec,
    }
    return await cluster.client.create(served(VGPULayout), body)


def of(**counts: int) -> list[dict[str, Any]]:
    """`A2_4Q=2` are two vGPUs of NVIDIA A2-4Q."""
    return [
        {"profile": f"NVIDIA {name.replace('_', '-')}", "count": count}
        for name, count in counts.items()
    ]


async def change(cluster: Any, name: str, **spec: Any) -> Any:
    return await cluster.patch(VGPULayout, name, {"spec": spec})


async def until(cluster: Any, name: str, state: str, gpu: str = A2, reason: str = "") -> Any:
    """Wait until the present desired state of a layout has this answer for a GPU; its entry."""

    def entry(layout: Any) -> Any:
        return next(
            (
                one
                for one in (layout.status.gpus if layout else ())
                if (one.name, one.state) == (gpu, state)
                and reason in ("", one.reason)
                and one.observed_generation == layout.metadata.generation
            ),
            None,
        )

    return entry(await cluster.until(VGPULayout, name, lambda layout: entry(layout) is not None))


async def settled(cluster: Any, name: str, reason: str) -> Any:
    return await cluster.answer(name, reason, VGPULayout)


def carried(host: Any, gpu: str = "") -> dict[str, int]:
    """The vGPUs of a host, or of one GPU, by profile."""
    found: dict[str, int] = {}
    for vgpu in scan(host).vgpus:
        if vgpu.configured and str(vgpu.parent).startswith(gpu):
            found[vgpu.configured.type_name] = found.get(vgpu.configured.type_name, 0) + 1
    return found


async def events(cluster: Any, name: str) -> list[tuple[str, str]]:
    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    return [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["name"] == name and item["reason"] != REASON
    ]


def hold(host: Any, vf: str) -> Any:
    """A virtual machine that has the vGPU of a function open."""
    home = f"/sys/bus/pci/devices/{vf}"
    uuid = next(str(v.configured.uuid) for v in scan(host).vgpus if str(v.address) == vf)
    group = host.resolve(f"{home}/{uuid}/iommu_group").rpartition("/")[2]
    return host.hold(f"/dev/vfio/{group}", "qemu-system-x86")


QUICK = Timing(retry=0.05, holder=0.02, put_back=0.01, sum=0.01)
"""Of agents that look again at once for what has no event."""
