"""A device that a ResourceClaim has is for no pod that asks the kubelet, and vice versa."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from laneway.api import VGPUDevice, find_condition
from laneway.controllers.device_plugin import controller as device_plugin
from laneway.core.dra.claims import UNKNOWN
from laneway.core.dra.device import DRIVER, TAINT_HELD
from laneway.kube.client import Client
from laneway.kube.slices import CLAIMS, SLICES

NAME, PROFILE = "node1-000008004", "NVIDIA A2-4Q"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"


@pytest.fixture(autouse=True)
async def agent(
    cluster: Any, node: Any, simulated: Callable[[str, str], Any], impatient: None
) -> Any:
    if cluster.server is None:
        pytest.skip("the real server of this tier is older than ResourceSlices")
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host, kubelet=node.folder, dra=True)
    await cluster.ask(NAME, PROFILE)
    await node.allocatable(RESOURCE, 1)
    return agent


async def device(cluster: Any, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the one published device is as a test expects."""
    async with asyncio.timeout(60):
        while True:
            page = [page async for page in cluster.client.list(SLICES)][-1]
            found = [
                one for item in page.items for one in SLICES.decode(item).spec.get("devices") or ()
            ]
            if found and holds(found[0]):
                return found[0]
            async for _event in cluster.client.watch(
                SLICES, resource_version=page.resource_version, server_seconds=5
            ):
                break


async def claim(cluster: Any, name: str) -> None:
    """A claim to which a scheduler has given a device."""
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "desktop", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "v"}}]}},
    }
    await cluster.client.create(CLAIMS, body, "default")
    result = {"request": "gpu", "driver": DRIVER, "pool": "node1", "device": name}
    status = {"allocation": {"devices": {"results": [result]}}}
    await cluster.client.patch(
        CLAIMS, "desktop", {"status": status}, "default", subresource="status"
    )


async def test_what_a_claim_has_no_pod_gets(cluster, node) -> None:
    published = await device(cluster, lambda one: "taints" not in one)
    await claim(cluster, published["name"])
    await node.allocatable(RESOURCE, 0)
    vgpu = await node.said(NAME, "Advertised", "Unhealthy")
    assert "ResourceClaim default/desktop" in advertised(vgpu)
    assert "taints" not in await device(cluster, lambda one: True)

    await cluster.client.delete(CLAIMS, "desktop", "default")
    await node.allocatable(RESOURCE, 1)


@pytest.mark.slow
async def test_what_a_pod_has_no_claim_gets(cluster, node) -> None:
    uid, _ = await node.pod("virt-launcher-a", vm="a", **{RESOURCE: 1})
    held = await device(
        cluster, lambda one: any(taint.get("value") for taint in one.get("taints", ()))
    )
    (taint,) = held["taints"]
    assert (taint["key"], taint["value"], taint["effect"]) == (
        TAINT_HELD,
        "virt-launcher-a",
        "NoSchedule",
    )
    await node.end("virt-launcher-a", uid)
    await device(cluster, lambda one: "taints" not in one)


async def test_what_a_claim_has_is_not_taken_away(cluster, node) -> None:
    published = await device(cluster, lambda one: "taints" not in one)
    await claim(cluster, published["name"])
    await node.allocatable(RESOURCE, 0)
    await cluster.disable(NAME)
    refused = await cluster.answer(NAME, "DeviceAllocated")
    assert "ResourceClaim default/desktop" in cluster.message(refused)
    assert refused.status.configure_vgpu_type_name == PROFILE

    await cluster.client.delete(CLAIMS, "desktop", "default")
    await cluster.until(VGPUDevice, NAME, lambda one: not one.status.configure_vgpu_type_name)


async def restart(cluster: Any, node: Any, agent: Any, *, dra: bool = True) -> Any:
    """The agent ends, and another one takes its place."""
    await cluster.stop_agent(agent)
    host = agent.hardware.host
    return await cluster.start_agent("node1", host, kubelet=node.folder, dra=dra)


def advertised(vgpu: Any) -> str:
    """Why pods can or cannot get a vGPU."""
    return str(find_condition(vgpu.status.conditions, "Advertised").message)


def counting(node: Any) -> list[int]:
    """How many devices pods can get, from now on, whenever that changes."""
    counts = [0]
    node.kubelet.subscribe(lambda: counts.append(node.kubelet.allocatable.get(RESOURCE, 0)))
    return counts


@pytest.mark.slow
async def test_what_a_claim_has_no_pod_gets_from_an_agent_that_restarts(
    cluster, node, agent
) -> None:
    published = await device(cluster, lambda one: "taints" not in one)
    await claim(cluster, published["name"])
    await node.allocatable(RESOURCE, 0)
    counts = counting(node)
    await restart(cluster, node, agent)
    assert node.kubelet.capacity[RESOURCE] == 1
    assert max(counts) == 0

    await cluster.client.delete(CLAIMS, "desktop", "default")
    await node.allocatable(RESOURCE, 1)


@pytest.mark.slow
async def test_what_a_claim_has_no_pod_gets_after_the_slices_were_switched_off(
    cluster, node, agent
) -> None:
    published = await device(cluster, lambda one: "taints" not in one)
    await claim(cluster, published["name"])
    await node.allocatable(RESOURCE, 0)
    counts = counting(node)
    for _ in range(2):  # The second agent finds no slices any more.
        agent = await restart(cluster, node, agent, dra=False)
        await node.counted(RESOURCE, 1)
    assert not [one async for page in cluster.client.list(SLICES) for one in page.items]
    assert max(counts) == 0

    await cluster.client.delete(CLAIMS, "desktop", "default")
    await node.allocatable(RESOURCE, 1)


async def test_what_a_pod_has_is_no_claims_while_the_kubelet_does_not_name_it(
    cluster, node, agent
) -> None:
    """A kubelet that starts knows of no pods for a moment, and a new agent only what it says."""
    await node.pod("virt-launcher-a", vm="a", **{RESOURCE: 1})
    await device(cluster, lambda one: bool(one.get("taints")))
    await cluster.stop_agent(agent)
    node.kubelet.faults.unreported_pods = 3
    shown: list[Any] = []
    page = [page async for page in cluster.client.list(SLICES)][-1]
    watching = cluster.client.watch(SLICES, resource_version=page.resource_version)
    async with asyncio.timeout(60), contextlib.aclosing(watching):
        await cluster.start_agent("node1", agent.hardware.host, kubelet=node.folder, dra=True)
        async for event in watching:
            shown += SLICES.decode(event.object).spec.get("devices") or ()
            if any(taint.get("value") for one in shown for taint in one.get("taints", ())):
                break
    assert node.kubelet.faults.unreported_pods == 0
    assert all(one.get("taints") for one in shown), shown


@pytest.mark.slow
async def test_nothing_is_taken_away_before_it_is_known_what_claims_have(
    cluster, node, agent, monkeypatch
) -> None:
    published = await device(cluster, lambda one: "taints" not in one)
    await claim(cluster, published["name"])
    await node.allocatable(RESOURCE, 0)
    listed, answers = Client.list, asyncio.Event()

    async def late(self: Client, resource: Any, *args: Any, **more: Any) -> AsyncIterator[Any]:
        if resource is CLAIMS:
            await answers.wait()
        async for page in listed(self, resource, *args, **more):
            yield page

    monkeypatch.setattr(Client, "list", late)
    monkeypatch.setattr(device_plugin, "SETTLING_SECONDS", 0.5)  # it is not waited for for ever
    counts = counting(node)
    await restart(cluster, node, agent)
    await cluster.until(VGPUDevice, NAME, lambda one: UNKNOWN[1:] in advertised(one))
    assert max(counts) == 0
    await cluster.disable(NAME)
    refused = await cluster.answer(NAME, "HoldersUnknown")
    assert "which ResourceClaims have devices" in cluster.message(refused)
    answers.set()
    refused = await cluster.answer(NAME, "DeviceAllocated")
    assert refused.status.configure_vgpu_type_name == PROFILE
