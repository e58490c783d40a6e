"""A claimed device goes to pods that may have it, also while no webhook judges pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.api.kubelet.deviceplugin_grpc import DevicePluginStub
from laneway.api.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
)
from laneway.controllers.device_plugin import gate
from laneway.core.keys import ANNOTATION_REQUESTERS
from laneway.core.requesters import User, written
from laneway.kube.pods import PODS
from laneway.kube.resource import served
from laneway.kubelet.sockets import endpoint
from laneway.sim.kubelet.pods import AdmissionError, Grant, PodRequest
from laneway.sim.kubelet.sockets import Dialled

NIC, OTHER = "0000:17:00.1", "0000:17:00.0"
NAMES = {NIC: "node1-000017001", OTHER: "node1-000017000"}
NAMESPACE = "default"
SECONDS = 30.0


class Kubelet:
    """A node whose kubelet gets pods, one after the other, as they come."""

    def __init__(self, cluster: Any, node: Any, resource: str) -> None:
        self.cluster = cluster
        self.node = node
        self.resource = resource

    async def claim(self, address: str, user: str) -> None:
        body = {
            "apiVersion": "devices.harvesterhci.io/v1beta1",
            "kind": "PCIDeviceClaim",
            "metadata": {"name": NAMES[address]},
            "spec": {"address": address, "nodeName": "node1", "userName": user},
        }
        await self.cluster.client.create(served(PCIDeviceClaim), body)

    async def bound(self, name: str, user: str = "", count: int = 1) -> PodRequest:
        """A pod of this user that the scheduler has put on the node; empty: unseen by admission."""
        limits = {self.resource: count}
        noted = {ANNOTATION_REQUESTERS: written([User(user)])} if user else {}
        resources = {"limits": {self.resource: str(count)}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": noted},
            "spec": {
                "nodeName": "node1",
                "containers": [{"name": "c", "image": "i", "resources": resources}],
            },
        }
        created = await self.cluster.client.create(PODS, body, NAMESPACE)
        uid = created.metadata.uid
        return PodRequest(uid=uid, namespace=NAMESPACE, name=name, containers={"c": limits})

    async def admit(self, pod: PodRequest) -> str:
        """Why the kubelet fails a pod; empty if it starts."""
        why = await self.refusal(pod)
        await self.end(pod, "Failed" if why else "Running")
        return why

    async def refusal(self, pod: PodRequest) -> str:
        """The same, while the API server has not heard of it yet."""
        try:
            granted: dict[str, Grant] = await self.node.kubelet.admit(pod)
        except AdmissionError as error:
            return str(error)
        assert len(granted["c"].ids[self.resource]) == pod.containers["c"][self.resource]
        return ""

    async def end(self, pod: PodRequest, phase: str) -> None:
        """The kubelet says how far a pod is."""
        body = {"status": {"phase": phase}}
        await self.cluster.client.patch(PODS, pod.name, body, NAMESPACE, subresource="status")


@pytest.fixture
async def kubelet(
    cluster: Any, node: Any, simulated: Any, monkeypatch: pytest.MonkeyPatch
) -> Kubelet:
    """Of a node with two devices of one resource, of which none is claimed."""
    monkeypatch.setattr(gate, "LOOK_SECONDS", 0.02)
    await node.agent(simulated("plain", "node1"))
    first, second = [
        (await cluster.get(PCIDevice, name)).status.resource_name for name in NAMES.values()
    ]
    assert first == second
    return Kubelet(cluster, node, first)


@pytest.fixture
async def kims(kubelet: Kubelet) -> Kubelet:
    """The same, where kim has claimed one."""
    await kubelet.claim(NIC, "kim")
    await kubelet.node.allocatable(kubelet.resource, 1)
    return kubelet


async def test_a_pod_that_may_not_have_the_device_fails_and_says_why(kims: Kubelet) -> None:
    words = await kims.admit(await kims.bound("bobs", "bob"))
    assert f"{NAMES[NIC]} is claimed by 'kim'; pod default/bobs may not have it" in words
    assert "'bob', 'system:serviceaccount:default:default' may not use it" in words
    words = await kims.admit(await kims.bound("unseen"))
    assert "whose creation Laneway's webhook did not see" in words
    assert await kims.admit(await kims.bound("kims", "kim")) == ""


async def test_a_device_of_all_is_allocated_alongside_one_of_kims(kims: Kubelet) -> None:
    await kims.claim(OTHER, "")
    await kims.node.allocatable(kims.resource, 2)
    # The preference leaves kim's alone, and for two there are not enough.
    assert "is claimed by 'kim'" in await kims.admit(await kims.bound("both", "bob", 2))
    assert await kims.admit(await kims.bound("bobs", "bob")) == ""
    assert await kims.admit(await kims.bound("kims", "kim")) == ""


@pytest.mark.slow
@pytest.mark.parametrize("order", [("kim", "bob"), ("bob", "kim")])
async def test_of_two_pods_at_once_the_one_that_may_have_it_gets_it_in_the_end(
    kims: Kubelet, order: tuple[str, str]
) -> None:
    pods = [await kims.bound(f"{user}s", user) for user in order]
    async with asyncio.timeout(SECONDS):
        found = dict(zip(order, await asyncio.gather(*map(kims.admit, pods)), strict=True))
        assert "is claimed by 'kim'" in found["bob"]
        if found["kim"]:  # The kubelet requested it while bob's was still to come.
            assert "any of the pods default/bobs, default/kims may be meant" in found["kim"]
            assert await kims.admit(await kims.bound("kims-again", "kim")) == ""


async def test_a_kubelet_waits_until_the_other_pod_is_known_to_have_failed(
    kims: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for pods that came after it had asked, of which there may always be another."""
    looked = asyncio.Event()

    def looking(*facts: Any) -> tuple[str, bool]:
        found = barred(*facts)
        if "not all of which may have it" in found[0]:
            looked.set()
        return found

    barred = gate.barred
    monkeypatch.setattr(gate, "barred", looking)
    monkeypatch.setattr(gate, "LOOKS", 1000)
    bobs, kim = await kims.bound("bobs", "bob"), await kims.bound("kims", "kim")
    asked = asyncio.create_task(kims.admit(kim))
    async with asyncio.timeout(SECONDS):
        # The first look is at what it prefers, at which no pod waits.
        for _ in range(2):
            await looked.wait()
            looked.clear()
        assert not asked.done()
        await kims.bound("bobs-next", "bob")
        await kims.end(bobs, "Failed")
        assert await asked == ""


@pytest.mark.parametrize("silent", ["API server", "kubelet"])
async def test_where_the_pod_is_not_known_only_devices_for_all_are_allocated(
    kims: Kubelet, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(gate, "ASK_SECONDS", 0.5)
    await kims.claim(OTHER, "")
    await kims.node.allocatable(kims.resource, 2)
    pods = [await kims.bound(name, "kim") for name in ("one", "two")]
    server = kims.cluster.server
    if server is None:
        pytest.skip("only the embedded server can be stopped")
    if silent == "API server":
        await server.stop()
    else:
        kims.node.kubelet.faults.pod_resources = "hang"
    try:
        words = sorted([await kims.refusal(pod) for pod in pods])
    finally:
        kims.node.kubelet.faults.pod_resources = "answer"
        if silent == "API server":
            await server.start()
    assert words[0] == ""
    assert "is claimed by 'kim', and which pod it is for could not be determined" in words[1]


async def test_a_device_that_is_claimed_for_another_after_it_was_preferred_is_refused(
    kubelet: Kubelet, cluster: Any
) -> None:
    await kubelet.claim(NIC, "")
    await kubelet.node.allocatable(kubelet.resource, 1)
    await kubelet.bound("bobs", "bob")
    dialled = Dialled(f"{kubelet.node.folder}/device-plugins", endpoint(kubelet.resource), "x")
    plugin = DevicePluginStub(dialled)
    try:
        one = ContainerPreferredAllocationRequest(available_deviceIDs=[NIC], allocation_size=1)
        preferred = await plugin.GetPreferredAllocation(
            PreferredAllocationRequest(container_requests=[one])
        )
        [ids] = [[*answer.deviceIDs] for answer in preferred.container_responses]
        assert ids == [NIC]
        await cluster.client.delete(served(PCIDeviceClaim), NAMES[NIC])
        await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one is None)
        await kubelet.claim(NIC, "kim")
        await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one.status.passthrough_enabled)
        asking = AllocateRequest(container_requests=[ContainerAllocateRequest(devicesIDs=ids)])
        with pytest.raises(Exception, match="is claimed by 'kim'; pod default/bobs may not"):
            await plugin.Allocate(asking, timeout=SECONDS)
    finally:
        dialled.close()
