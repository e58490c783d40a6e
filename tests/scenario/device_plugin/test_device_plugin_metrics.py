"""Metrics of devices for pods."""

from __future__ import annotations

from typing import Any

import pytest

Q4 = "NVIDIA A2-4Q"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
VGPU = "node1-000008004"


def counted(cluster: Any, name: str, **labels: str) -> float:
    labels |= {"node": "node1", "resource": RESOURCE}
    found: float = cluster.families.registry.get_sample_value(name, labels)
    return found


async def test_devices_are_counted_by_resource(cluster: Any, node: Any, simulated: Any) -> None:
    await node.agent(simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("launcher", **{RESOURCE: 1})
    held = await node.said(VGPU, "Advertised", "Advertised")
    await cluster.until(type(held), VGPU, lambda obj: obj.status.allocation)
    for state in ("offered", "healthy", "allocated"):
        assert counted(cluster, "laneway_device_plugin_devices", state=state) == 1
    assert counted(cluster, "laneway_device_plugin_registrations_total") == 1

    await node.end("launcher", uid)
    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    for state in ("offered", "healthy", "allocated"):
        assert counted(cluster, "laneway_device_plugin_devices", state=state) == 0


@pytest.mark.slow
async def test_every_registration_is_counted(cluster: Any, node: Any, simulated: Any) -> None:
    await node.agent(simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    await node.allocatable(RESOURCE, 1)
    await node.kubelet.stop()
    await node.kubelet.start()
    await node.allocatable(RESOURCE, 1)
    assert counted(cluster, "laneway_device_plugin_registrations_total") == 2
