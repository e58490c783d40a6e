"""Devices back to their nodes, and what stays when Laneway just goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import (
    MigConfiguration,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.controllers.release import steps
from laneway.controllers.release.objects import look
from laneway.core.pci import PciAddress
from laneway.core.release.everything import decide
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import served
from support.commands import Laneway, ended, layout, started
from support.examples import first
from support.worlds import World

NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
CLAIM = "node1-000004001"
VGPU = "node1-000008004"
GPU = "node1-000008000"
A2_4Q = "nvidia.com/NVIDIA_A2-4Q"


def driver(node: Any, address: str) -> str:
    return str(scan(node.host).function(PciAddress.parse(address)).driver)


def vfs(node: Any) -> int:
    return sum(one.physfn is not None for one in scan(node.host).functions)


def answered(reason: str) -> Callable[[Any], bool]:
    """Whether the present desired state is answered so."""

    def holds(one: Any) -> bool:
        ready = find_condition(one.status.conditions, "Ready")
        return (
            ready is not None
            and ready.reason == reason
            and ready.observed_generation == one.metadata.generation
        )

    return holds


@pytest.mark.parametrize("model", first("a2-vfio", "a2"))
async def test_everything_goes_back_in_order(world: World, laneway: Laneway, model: str) -> None:
    node = await world.add("node1", model)
    await layout(
        world.cluster,
        "mine",
        nodeSelector={"matchLabels": {"kubernetes.io/hostname": "node1"}},
        vgpus=[{"profile": "NVIDIA A2-4Q", "count": 2}],
    )
    await world.until(served(VGPULayout), "mine", lambda one: one.status.summary == "1 of 1")
    await world.claim(CLAIM)
    assert driver(node, "0000:04:00.1") == "vfio-pci"
    before = dict(world.cluster.carried(node.host))
    assert len(before) == 2

    tried = await laneway("release", "--all", "--dry-run")
    assert tried.lines[0] == "1. delete VGPULayout mine"
    assert f"disable SRIOVGPUDevice {GPU}" in tried.lines[-1]
    assert world.cluster.carried(node.host) == before

    done = await laneway("release", "--node", "node1")
    assert done.lines[-1] == "Done. Nothing is claimed or configured."
    assert driver(node, "0000:04:00.1") == "igb"
    assert world.cluster.carried(node.host) == {}
    assert vfs(node) == 0
    assert await world.cluster.names(PCIDeviceClaim) == set()
    assert await world.cluster.names(VGPULayout) == set()
    again = await laneway("release", "--all")
    assert again.lines == ["Done. Nothing is claimed or configured."]


@pytest.mark.slow
async def test_what_a_machine_has_stays_until_it_stops(
    world: World, kubeconfig: str, laneway: Laneway
) -> None:
    node = await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.claim(CLAIM)
    await world.allocatable("node1", A2_4Q, 1)
    await world.make_vm("vm1", gpus=[A2_4Q])
    await world.running("vm1")
    await world.until(served(VGPUDevice), VGPU, lambda one: one.status.allocation is not None)
    held = f"VGPUDevice {VGPU}: it is allocated to VM default/vm1: stop that first"
    tried = await laneway("release", "--all", "--dry-run", status=3)
    assert f"blocked: {held}" in tried.lines

    left = await laneway("release", "--all", "--timeout", "5", status=3)
    assert f"left: {held}" in left.err
    assert f"left: SRIOVGPUDevice {GPU}: waits for VGPUDevice {VGPU}" in left.err
    # That one was free. What was asked back goes on when the command waits no longer.
    await world.until(served(PCIDeviceClaim), CLAIM, lambda one: one is None)
    assert driver(node, "0000:04:00.1") == "igb"
    assert (await world.client.get(served(VGPUDevice), VGPU)).spec.enabled
    assert len(await world.opened("vm1")) == 1

    # It goes on by itself once the machine ends.
    running = await started("release", "--all", "--timeout", "50", kubeconfig=kubeconfig)
    await world.delete_vm("vm1")
    done = await ended(running)
    assert done.status == 0, done
    assert world.cluster.carried(node.host) == {}
    assert vfs(node) == 0


@pytest.mark.slow
async def test_mig_and_network_functions_go_back(world: World, laneway: Laneway) -> None:
    a100 = await world.add("node1", "a100")
    plain = await world.add("node2", "plain")
    gpu = "node1-000017000"
    mode = {"spec": {"mode": "MIGBacked", "enabled": True}}
    await world.client.patch(served(SRIOVGPUDevice), gpu, mode)
    await world.until(served(SRIOVGPUDevice), gpu, answered("NoGpuInstances"))
    found = await world.until(
        served(MigConfiguration), gpu, lambda one: one is not None and one.status.profile_status
    )
    [profile] = [one for one in found.status.profile_status if one.name == "MIG 1g.5gb"]
    desired = {"name": profile.name, "id": profile.id, "requested": 2}
    body = {"spec": {"enabled": True, "profileSpec": [desired]}}
    await world.client.patch(served(MigConfiguration), gpu, body)
    await world.until(served(MigConfiguration), gpu, answered("Synced"))
    [card] = [
        one
        for one in await world.cluster.all(SRIOVNetworkDevice)
        if one.spec.address == "0000:17:00.0"
    ]
    name = card.metadata.name
    await world.client.patch(served(SRIOVNetworkDevice), name, {"spec": {"numVFs": 2}})
    found = await world.until(
        served(SRIOVNetworkDevice), name, lambda one: len(one.status.vf_pci_devices) == 2
    )
    vf = found.status.vf_pci_devices[0]
    await world.claim(vf)

    await laneway("release", "--all")
    assert vfs(plain) == 0
    gpus = [one for one in scan(a100.host).functions if one.sriov_gpu]
    assert all(one.num_vfs == 0 for one in gpus)
    mig = await world.client.get(served(MigConfiguration), gpu)
    assert not any(one.vgpu_ids for one in mig.status.profile_status)


@pytest.mark.slow
async def test_a_layout_of_other_nodes_stands_in_the_way(world: World, laneway: Laneway) -> None:
    await world.add("node1", "a2")
    await world.add("node2", "a2")
    await layout(world.cluster, "both", vgpus=[{"profile": "NVIDIA A2-4Q", "count": 1}])
    await world.until(served(VGPULayout), "both", lambda one: one.status.summary == "2 of 2")
    left = await laneway("release", "--node", "node1", "--timeout", "3", status=3)
    assert "left: VGPULayout both: it selects node2 as well" in left.err
    assert await world.cluster.names(VGPULayout) == {"both"}


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("True", "Synced", "being released"),
        ("False", "InProgress", "being released"),
        ("False", "WriteFailed", "WriteFailed: no"),
    ],
)
async def test_what_is_waited_for_says_what_stands_against_it(
    cluster: Any, status: str, reason: str, words: str
) -> None:
    claims = served(PCIDeviceClaim)
    body = {
        "apiVersion": claims.api_version,
        "kind": claims.kind,
        "metadata": {"name": CLAIM, "finalizers": ["example.com/kept"]},
        "spec": {"nodeName": "node1", "address": "0000:04:00.1", "userName": "admin"},
    }
    await cluster.client.create(claims, body)
    ready = {"type": "Ready", "status": status, "reason": reason, "message": "no"}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    body = {"status": {"conditions": [ready]}}
    await cluster.client.patch(claims, CLAIM, body, subresource="status")
    await cluster.client.delete(claims, CLAIM)

    [obstacle] = decide(await look(cluster.client, ["node1"])).obstacles

    assert obstacle.words == f"PCIDeviceClaim {CLAIM}: {words}"
    await cluster.client.patch(claims, CLAIM, {"metadata": {"finalizers": None}})


@pytest.mark.slow
async def test_without_an_agent_it_says_so(world: World, laneway: Laneway) -> None:
    node = await world.add("node1", "a2")
    await world.claim(CLAIM)
    await world.kill_agent(node)
    left = await laneway("release", "--node", "node1", "--timeout", "3", status=3)
    assert f"left: PCIDeviceClaim {CLAIM}" in left.err
    missing = await laneway("release", "--node", "node9", status=1)
    assert "the cluster has no node node9" in missing.err
    wrong = await laneway("release", status=2)
    assert "name devices as NODE/ADDRESS" in wrong.err


@pytest.mark.slow
async def test_going_without_it_leaves_devices_as_they_are(
    world: World, recorded: Callable[[Any], list[Any]]
) -> None:
    node = await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.claim(CLAIM)
    await world.allocatable("node1", NIC, 1)
    await world.make_vm("vm1", host_devices=[NIC])
    await world.running("vm1")
    writes = recorded(node.host)
    before = scan(node.host)
    await world.kill_agent(node)
    await world.kill_manager()
    assert writes == []
    assert scan(node.host) == before
    assert driver(node, "0000:04:00.1") == "vfio-pci"
    assert len(await world.opened("vm1")) == 1
    assert await world.cluster.names(PCIDeviceClaim) == {CLAIM}


class Refusing(Client):
    """A client whose deletions are refused, as admission does."""

    async def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> bytes:
        if method == "DELETE":
            raise ForbiddenError(403, "Forbidden", "default/desk names it")
        return await super().call(method, path, *args, **kwargs)


@pytest.mark.slow
async def test_what_is_refused_is_reported_and_the_rest_goes_on(
    world: World, kubeconfig: str
) -> None:
    node = await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.claim(CLAIM)
    said: list[str] = []
    async with Refusing(load(kubeconfig)) as client:
        task = asyncio.create_task(steps.release(client, [], said.append, seconds=60))
        await world.until(served(SRIOVGPUDevice), GPU, lambda one: not one.spec.enabled)
        await world.until(served(SRIOVGPUDevice), GPU, answered("Disabled"))
        task.cancel()
        await asyncio.wait({task})
    words = f"waiting: PCIDeviceClaim {CLAIM}: refused: default/desk names it"
    assert said.count(words) == 1
    assert world.cluster.carried(node.host) == {}
    assert driver(node, "0000:04:00.1") == "vfio-pci"
