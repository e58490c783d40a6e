"""What is measured of a vGPU has the name of the VM that the kubelet gave it to."""

from __future__ import annotations

from typing import Any

from laneway.api import VGPUDevice

Q4 = "NVIDIA A2-4Q"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
GPU, VF, NAME = "0000:08:00.0", "0000:08:00.4", "node1-000008004"


def measured(cluster: Any) -> list[dict[str, str]]:
    """The vGPUs of which Prometheus gets the framebuffer."""
    return [
        sample.labels
        for family in cluster.families.registry.collect()
        for sample in family.samples
        if sample.name == "laneway_vgpu_framebuffer_used_bytes"
    ]


async def test_a_vgpu_is_measured_under_its_vms_name(cluster, node, simulated) -> None:
    host = simulated("a2", "node1")
    agent = await node.agent(host)
    await cluster.ask(NAME, Q4)
    await cluster.answer(NAME, "Configured")
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("launcher", "ann", **{RESOURCE: 1})
    vgpu = await cluster.until(VGPUDevice, NAME, lambda one: one.status.allocation is not None)
    assert measured(cluster) == [], "no VM has it open"

    vm = host.hold(f"/sys/bus/mdev/devices/{vgpu.status.uuid}", pod=uid)
    await agent.measuring.measure()
    assert measured(cluster) == [
        {
            "node": "node1",
            "gpu": GPU,
            "vgpu": VF,
            "profile": Q4,
            "namespace": vgpu.status.allocation.namespace,
            "vm": "ann",
        }
    ]

    vm.release()
    await agent.measuring.measure()
    assert measured(cluster) == []
