"""VGPUDevices that speak of other hardware, of another node, or of nothing that can be read."""

from __future__ import annotations

import pytest

from laneway.api import VGPUDevice
from laneway.kube.client import PatchType
from laneway.kube.resource import Resource, served

pytestmark = pytest.mark.realapi

VGPU = "node1-000008004"
Q4 = "NVIDIA A2-4Q"
GPU_STATUS = "/apis/devices.harvesterhci.io/v1beta1/sriovgpudevices/node1-000008000/status"


async def test_an_object_that_speaks_of_other_hardware_moves_nothing(cluster, simulated):
    host = simulated("a2", "node1")
    spec = {
        "address": "0000:08:00.5",
        "nodeName": "node1",
        "parentGPUDeviceAddress": "0000:08:00.0",
        "enabled": True,
        "vGPUTypeName": Q4,
    }
    labels = {"nodename": "node1"}
    for name, more in (
        (VGPU, {}),
        ("handmade", {}),
        ("node1-000008006", {"address": "0000:08:00.6", "nodeName": "node2"}),
    ):
        body = {"metadata": {"name": name, "labels": labels}, "spec": {**spec, **more}}
        body |= {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "VGPUDevice"}
        await cluster.client.create(served(VGPUDevice), body)

    await cluster.start_agent("node1", host)

    for name in (VGPU, "handmade", "node1-000008006"):
        vgpu = await cluster.answer(name, "NameMismatch")
        assert name in cluster.message(vgpu)
    assert cluster.carried(host) == {}


async def test_objects_of_another_node_under_our_label_are_left_alone(cluster, simulated):
    agent = await cluster.start_agent("node2", simulated("a2", "node2"))
    await cluster.ask("node2-000008004", Q4)
    await cluster.answer("node2-000008004", "Configured")
    await cluster.stop_agent(agent)
    for name in ("node2-000008004", "node2-000008005"):
        await cluster.patch(VGPUDevice, name, {"metadata": {"labels": {"nodename": "node1"}}})
    before = await cluster.get(VGPUDevice, "node2-000008004")

    first = await cluster.start_agent("node1", simulated("plain", "node1"))
    await cluster.quiet(first)

    after = await cluster.get(VGPUDevice, "node2-000008004")
    assert after == before

    await cluster.start_agent("node2", simulated("a2", "node2"))
    back = await cluster.until(
        VGPUDevice, "node2-000008004", lambda v: v.metadata.labels["nodename"] == "node2"
    )
    assert back.metadata.uid == before.metadata.uid


async def test_an_object_without_our_label_is_adopted_and_its_desired_state_served(
    cluster, simulated
):
    host = simulated("a2", "node1")
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {"name": VGPU},
        "spec": {
            "address": "0000:08:00.4",
            "nodeName": "node1",
            "parentGPUDeviceAddress": "0000:08:00.0",
            "enabled": True,
            "vGPUTypeName": Q4,
        },
    }
    await cluster.client.create(served(VGPUDevice), body)

    await cluster.start_agent("node1", host)

    vgpu = await cluster.answer(VGPU, "Configured")
    assert vgpu.metadata.labels["nodename"] == "node1"
    assert cluster.carried(host) == {"0000:08:00.4": Q4}


async def test_an_object_that_is_being_deleted_moves_nothing(cluster, simulated, requests):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await cluster.patch(VGPUDevice, VGPU, hold)
    await cluster.client.delete(served(VGPUDevice), VGPU)
    await cluster.ask(VGPU, Q4)
    requests.clear()

    await cluster.quiet(agent)

    # The GPU tells that one of its vGPUs goes.
    assert requests in ([], [("PATCH", GPU_STATUS)])
    assert cluster.carried(host) == {}
    await cluster.patch(VGPUDevice, VGPU, {"metadata": {"finalizers": None}})
    vgpu = await cluster.until(
        VGPUDevice, VGPU, lambda v: v is not None and v.metadata.deletion_timestamp is None
    )
    assert not vgpu.spec.enabled


async def test_an_object_that_cannot_be_read_moves_nothing(cluster, simulated, requests):
    crds = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, VGPUDevice)
    crd = "vgpudevices.devices.harvesterhci.io"
    schema = "/spec/versions/0/schema/openAPIV3Schema"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    loose = [{"op": "replace", "path": schema, "value": anything}]
    await cluster.client.patch(crds, crd, loose, patch_type=PatchType.JSON)
    host = simulated("a2", "node1")
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {"name": VGPU, "labels": {"nodename": "node1"}},
        "spec": {"address": ["0000:08:00.4"], "enabled": "yes"},
    }
    with pytest.raises(Exception, match="cannot be read"):
        await cluster.client.create(served(VGPUDevice), body)

    agent = await cluster.start_agent("node1", host)
    requests.clear()
    await cluster.quiet(agent)

    assert requests == []
    assert cluster.carried(host) == {}
