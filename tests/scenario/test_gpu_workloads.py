"""GPUs that serve containers: the agent leaves them alone, and has their device plugin come."""

from __future__ import annotations

import copy
import os
from types import SimpleNamespace
from typing import Any

import pytest

from laneway.api import CoreNode, DeviceNode, PCIDevice, PCIDeviceClaim, SRIOVGPUDevice
from laneway.api import find_condition as find
from laneway.api.fields import API_VERSION
from laneway.controllers import node_labels
from laneway.kube.errors import ForbiddenError
from laneway.kube.pods import PODS
from laneway.kube.resource import served

pytestmark = pytest.mark.realapi

GPU, OTHER = "node1-000017000", "node1-000098000"
LABEL = "laneway.io/amd-gpu-containers"


async def make_node(cluster: Any, **labels: str) -> None:
    await cluster.client.create(served(CoreNode), {"metadata": {"name": "node1", "labels": labels}})


async def serve(cluster: Any, name: str, workload: str, cls: type[Any] = PCIDevice) -> None:
    await cluster.patch(cls, name, {"spec": {"workload": workload}})


async def claim(cluster: Any, name: str, address: str) -> None:
    spec = {"address": address, "nodeName": "node1", "userName": "alice"}
    body = {"apiVersion": API_VERSION, "kind": "PCIDeviceClaim", "metadata": {"name": name}}
    await cluster.client.create(served(PCIDeviceClaim), {**body, "spec": spec})


def driver(host: Any, address: str) -> str:
    return os.path.basename(host.readlink(f"/sys/bus/pci/devices/{address}/driver"))


def answered(obj: Any, reason: str, kind: str = "Ready") -> bool:
    found = find(obj.status.conditions, kind) if obj is not None else None
    return found is not None and found.reason == reason


async def test_one_gpu_for_vms_and_one_for_containers(
    cluster: Any, simulated: Any, tmp_path: Any
) -> None:
    await make_node(cluster)
    host = simulated("mi210", "node1")
    await cluster.start_agent("node1", host, kubelet=str(tmp_path))
    await serve(cluster, GPU, "Containers")

    # AMD's device plugin would advertise both.
    mixed = await cluster.until(
        DeviceNode, "node1", lambda one: answered(one, "ContainerGpusMixed", "ContainerGpus")
    )
    assert "0000:98:00.0" in find(mixed.status.conditions, "ContainerGpus").message
    assert LABEL not in (await cluster.get(CoreNode, "node1")).metadata.labels

    await claim(cluster, OTHER, "0000:98:00.0")
    await cluster.until(CoreNode, "node1", lambda one: one.metadata.labels.get(LABEL) == "true")

    for name, resource in (("rendering", "nvidia.com/gpu"), ("training", "amd.com/gpu")):
        container = {"name": "a", "image": "a", "resources": {"limits": {resource: "1"}}}
        spec = {"nodeName": "node1", "containers": [container]}
        await cluster.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
    await claim(cluster, GPU, "0000:17:00.0")
    kept = await cluster.until(
        PCIDeviceClaim, GPU, lambda one: answered(one, "GpusForContainers", "Bound")
    )
    said = find(kept.status.conditions, "Bound").message
    assert "its spec.workload is Containers" in said
    assert "Pods that use GPUs of this node: default/training." in said
    assert driver(host, "0000:17:00.0") == "amdgpu"

    await serve(cluster, GPU, "VirtualMachines")
    await cluster.until(
        PCIDeviceClaim, GPU, lambda one: find(one.status.conditions, "Bound").status == "True"
    )
    await cluster.until(CoreNode, "node1", lambda one: LABEL not in one.metadata.labels)
    await cluster.until(
        DeviceNode, "node1", lambda one: answered(one, "NoContainerGpus", "ContainerGpus")
    )


async def test_a_gpu_for_containers_is_not_shared(cluster: Any, simulated: Any) -> None:
    await make_node(cluster, **{"laneway.io/gpu-workload": "containers"})
    host = simulated("a2", "node1")
    await host.run(["/usr/lib/nvidia/sriov-manage", "-d", "0000:08:00.0"], 60)
    await cluster.start_agent("node1", host)
    gpu = "node1-000008000"
    await cluster.until(
        CoreNode,
        "node1",
        lambda one: one.metadata.labels.get("laneway.io/nvidia-gpu-containers") == "true",
    )
    await cluster.patch(SRIOVGPUDevice, gpu, {"spec": {"enabled": True}})
    await cluster.until(SRIOVGPUDevice, gpu, lambda one: answered(one, "GpusForContainers"))

    await serve(cluster, gpu, "VirtualMachines", SRIOVGPUDevice)
    await cluster.until(SRIOVGPUDevice, gpu, lambda one: len(one.status.vf_addresses) == 16)


async def test_what_serves_vms_stays_theirs_when_the_node_gets_the_label(
    cluster: Any, simulated: Any
) -> None:
    await make_node(cluster)
    await cluster.start_agent("node1", simulated("flex-170", "node1"))
    await claim(cluster, GPU, "0000:17:00.0")
    await cluster.until(
        PCIDeviceClaim,
        GPU,
        lambda one: one is not None and answered(one, "Bound", "Bound"),
    )
    label = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "container"}}}
    await cluster.patch(CoreNode, "node1", label)
    node = await cluster.until(
        CoreNode,
        "node1",
        lambda one: one.metadata.labels.get("laneway.io/intel-gpu-containers") == "true",
    )
    assert "feature.node.kubernetes.io/pci-0380_8086.sriov.capable" in node.metadata.labels
    kept = await cluster.get(PCIDeviceClaim, GPU)
    assert find(kept.status.conditions, "Bound").status == "True"


async def test_labels_that_are_forbidden_are_not_sent_at_every_event(
    cluster: Any, simulated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the policies of a chart that is older than the agent."""
    now, sent, forbidden = [0.0], list[Any](), True
    monkeypatch.setattr(node_labels, "time", SimpleNamespace(monotonic=lambda: now[0]))
    agents = copy.copy(cluster.own)

    async def call(method: str, path: str, *rest: Any) -> bytes:
        if forbidden and (method, path) == ("PATCH", "/api/v1/nodes/node1"):
            sent.append(rest[1])
            raise ForbiddenError(403, "Forbidden", "of its node an agent changes one label")
        answer: bytes = await cluster.client.call(method, path, *rest)
        return answer

    agents.call = call
    cluster.own = agents
    await make_node(cluster, **{"laneway.io/gpu-workload": "containers"})
    await cluster.start_agent("node1", simulated("mi210", "node1"))
    await cluster.until(PCIDevice, GPU, lambda one: one is not None)
    assert sent
    assert all(sent.count(one) == 1 for one in sent)

    forbidden, now[0] = False, node_labels.REFUSED_SECONDS
    await cluster.patch(CoreNode, "node1", {"metadata": {"labels": {"a": "b"}}})
    await cluster.until(CoreNode, "node1", lambda one: one.metadata.labels.get(LABEL) == "true")
