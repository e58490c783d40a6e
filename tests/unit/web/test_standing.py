"""The state of the cluster, from caches that change."""

from __future__ import annotations

import msgspec
import pytest

from laneway.api import (
    Condition,
    DeviceNode,
    DeviceNodeStatus,
    ObjectMeta,
    SRIOVGPUDevice,
)
from laneway.api.gpu import SRIOVGPUDeviceSpec, SRIOVGPUDeviceStatus
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.resource import Key
from laneway.views.troubles import Weight
from laneway.web.caches import Caches, Node
from laneway.web.standing import Standing, standing, worst

A2_4Q, A2_8Q = "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/NVIDIA_A2-8Q"


@pytest.fixture
def caches() -> Caches:
    """Of a cluster that is never asked."""
    found = Caches.of(Client(ClusterConfig(Cluster("http://127.0.0.1:1"))))
    found.nodes.store.put(Node(metadata=ObjectMeta(name="n1")))
    return found


def gpu(name: str, reason: str = "Enabled", **fits: int) -> SRIOVGPUDevice:
    ready = Condition(type="Ready", status="True", reason=reason)
    if reason != "Enabled":
        ready = msgspec.structs.replace(ready, status="False", message="Why.")
    counts = {f"NVIDIA A2-{name}": count for name, count in fits.items()}
    return SRIOVGPUDevice(
        metadata=ObjectMeta(name=name),
        spec=SRIOVGPUDeviceSpec(node_name="n1", enabled=True),
        status=SRIOVGPUDeviceStatus(conditions=[ready], fits=counts),
    )


def marker(name: str) -> DeviceNode:
    observed = Condition(type="Ready", status="True", reason="Observed")
    return DeviceNode(
        metadata=ObjectMeta(name=name), status=DeviceNodeStatus(conditions=[observed])
    )


def reasons(now: Standing) -> list[tuple[str, str]]:
    every = now.troubles({"nodes", "gpus"})
    return [(one.key.name, one.trouble.reason) for one in worst(every, 9)]


def test_what_could_be_created_is_summed_over_the_gpus_of_a_node(caches: Caches) -> None:
    caches.gpus.store.put(gpu("g1", **{"4Q": 4, "8Q": 2}))
    caches.gpus.store.put(gpu("g2", **{"4Q": 3, "8Q": 0}))
    now = standing(caches)
    assert now.creatable == {("n1", A2_4Q): 7, ("n1", A2_8Q): 2}
    before = now.creatable_as_of
    caches.gpus.store.put(gpu("g1", **{"4Q": 1}))
    now = standing(caches)
    assert now.creatable == {("n1", A2_4Q): 4}
    assert now.creatable_types == {A2_4Q: 4}
    assert now.creatable_as_of is not before


def test_a_node_is_in_order_once_its_agent_has_answered_and_its_gpu_works(caches: Caches) -> None:
    caches.gpus.store.put(gpu("g1", "WriteFailed"))
    assert reasons(standing(caches)) == [("g1", "WriteFailed"), ("n1", "NoAgent")]
    caches.device_nodes.store.put(marker("n1"))
    now = standing(caches)
    assert reasons(now) == [("g1", "WriteFailed")]
    assert [one.key.name for one in now.of_node("n1", {"gpus"})] == ["g1"]
    caches.gpus.store.put(gpu("g1"))
    assert reasons(standing(caches)) == []
    caches.nodes.store.drop(Key("", "n1"))
    assert reasons(standing(caches)) == [("n1", "NodeNotFound")]


def test_an_object_that_cannot_be_read_is_among_the_troubles(caches: Caches) -> None:
    caches.gpus.undecodable[Key("", "odd")] = "spec.enabled: expected bool"
    [found] = standing(caches).troubles({"gpus"})
    assert found.key.name == "odd"
    assert found.trouble.weight is Weight.FAILED
    assert "spec.enabled: expected bool" in found.trouble.message
