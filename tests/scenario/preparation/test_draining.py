"""What leaves a node before its reboot, what stays, and what is never stopped unasked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from laneway.api import CoreNode, HostPolicy
from laneway.kube.pods import DAEMON_SETS, PODS
from laneway.kube.resource import Resource, served
from laneway.simcluster.kubevirt.objects import INSTANCES
from support.worlds import NAMESPACE, World

Make = Callable[..., Awaitable[Any]]
BARE = "a2,iommu=off"
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", True, CoreNode, "PodDisruptionBudget")
WORKLOADS = {
    "Deployment": Resource("apps", "v1", "deployments", True, CoreNode, "Deployment"),
    "DaemonSet": DAEMON_SETS,
}


async def make_pod(world: World, name: str, kind: str = "") -> None:
    """A pod on n1 that a workload of its name controls, or none."""
    owners = []
    if kind:
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        }
        spec = {"selector": {"matchLabels": labels}, "template": template}
        made = await world.client.create(
            WORKLOADS[kind], {"metadata": {"name": name}, "spec": spec}, NAMESPACE
        )
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
        owners = [{**owner, "uid": made.metadata.uid}]
    body = {
        "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "a", "image": "a"}], "nodeName": "n1"},
    }
    await world.client.create(PODS, body, NAMESPACE)
    await world.until(PODS, name, lambda one: one.status.phase == "Running", NAMESPACE)


async def gone(world: World, name: str) -> None:
    await world.until(PODS, name, lambda one: one is None, NAMESPACE)


async def test_pods_are_evicted_as_their_budgets_allow(
    world: World, policy: Make, reason: Make, stage: Make
) -> None:
    node = await world.add_server("n1", BARE)
    await make_pod(world, "web", "Deployment")
    await make_pod(world, "db", "Deployment")
    await make_pod(world, "log", "DaemonSet")
    guarded = {
        "metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }
    budget = await world.client.create(BUDGETS, guarded, NAMESPACE)
    generation = {"observedGeneration": budget.metadata.generation or 1}

    await policy()
    await gone(world, "web")
    waiting = await stage("n1", "Draining", f"{NAMESPACE}/db")

    assert f"{NAMESPACE}/log" not in waiting.spec.rollout.message  # it comes with its node
    assert node.host.boots == 0
    allowed = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    body = {"status": {**generation, **allowed, "expectedPods": 2}}
    await world.client.patch(BUDGETS, "db", body, NAMESPACE, subresource="status")
    await reason("gpus", "RolledOut")
    assert node.host.boots == 1


async def test_a_pod_that_nothing_would_make_again_is_named_and_kept(
    world: World, policy: Make, reason: Make, stage: Make
) -> None:
    node = await world.add_server("n1", BARE)
    await make_pod(world, "alone")

    await policy()
    await stage("n1", "Draining", f"{NAMESPACE}/alone (has no controller: delete it)")
    assert node.host.boots == 0

    await world.client.patch(served(HostPolicy), "gpus", {"spec": {"rollout": {"skipDrain": True}}})
    await reason("gpus", "RolledOut")


async def test_a_policy_that_says_so_stops_vms_with_devices(
    world: World, policy: Make, reason: Make
) -> None:
    node = await world.add_server("n1", "a2")
    vgpu = await world.vgpu("n1-000008004", "NVIDIA A2-4Q")
    await world.make_vm("desktop", gpus=[vgpu.status.resource_name])
    await world.running("desktop")

    await policy(kernelArguments=["pcie_aspm=off"], rollout={"stopVMs": True})
    await reason("gpus", "RolledOut")

    assert node.host.boots == 1
    await world.running("desktop")  # as its own run strategy says


async def test_a_pause_in_the_middle_gives_the_node_back(
    world: World, policy: Make, stage: Make
) -> None:
    node = await world.add_server("n1", BARE)
    await make_pod(world, "alone")
    await policy()
    await stage("n1", "Draining", "alone")
    await world.until(served(CoreNode), "n1", lambda one: one.spec.unschedulable)

    await world.client.patch(served(HostPolicy), "gpus", {"spec": {"rollout": {"paused": True}}})
    await world.until(served(CoreNode), "n1", lambda one: not one.spec.unschedulable)

    assert node.host.boots == 0


async def test_a_vm_without_devices_goes_to_another_node_and_runs_on(
    world: World, policy: Make, reason: Make
) -> None:
    for name in ("n1", "n2"):
        await world.add_server(name, BARE)
    await world.make_vm("web")
    before = await world.running("web")
    home = before.status.node_name

    await policy(nodeSelector={"names": [home]}, iommu=True)
    await reason("gpus", "RolledOut")

    after = await world.client.get(INSTANCES, "web", NAMESPACE)
    assert after.metadata.uid == before.metadata.uid  # it never ended
    assert {home, after.status.node_name} == {"n1", "n2"}
    assert world.nodes[home].host.boots == 1
