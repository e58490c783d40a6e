"""A node is drained, rebooted and given back, with every part under exactly its own account."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from laneway.api import CoreNode, HostPolicy
from laneway.kube.client import Client
from laneway.kube.pods import DAEMON_SETS, PODS
from laneway.kube.resource import Resource, served
from support.accounts import (
    AGENT,
    MANAGER,
    REAL,
    WEBHOOK,
    Installed,
    may,
    refusals,
    reviews,
    right,
    until,
)
from support.accounts import NAMESPACE as LANEWAY
from support.accounts_webhook import asked, webhook
from support.policies import policies
from support.worlds import NAMESPACE, World

PREPARING = {"hosts": {"prepare": True}}
BARE = "a2,iommu=off"
DEPLOYMENTS = Resource("apps", "v1", "deployments", True, CoreNode, "Deployment")
POLICY = {
    "apiVersion": "devices.harvesterhci.io/v1beta1",
    "kind": "HostPolicy",
    "metadata": {"name": "gpus"},
    "spec": {
        "nodeSelector": {"names": ["n1"]},
        "iommu": True,
        "rollout": {"reboot": {"when": "WhenFree"}},
    },
}
FREEING = (
    "create pods/eviction default/",
    "create virtualmachineinstancemigrations.kubevirt.io default/",
    "delete virtualmachineinstances.kubevirt.io default/",
)


async def test_only_a_manager_that_prepares_hosts_may_free_nodes(chart: Installed) -> None:
    await chart.install()
    async with await chart.acting(MANAGER) as manager:
        await chart.granted(manager, right("patch hostpreparations.devices.harvesterhci.io"))
        assert not [one for one in FREEING if await may(manager, right(one))]

    await chart.install(PREPARING)
    async with await chart.acting(MANAGER) as manager:
        for one in FREEING:
            await chart.granted(manager, right(one))
        assert not await may(manager, right("delete pods default/"))
    async with await chart.acting(AGENT, node="n1") as agent:
        for one in (*FREEING, "patch hostpreparations.devices.harvesterhci.io n1"):
            assert not await may(agent, right(one)), one


@pytest.mark.realapi
@pytest.mark.whole_kubernetes
@pytest.mark.slow
async def test_a_node_is_drained_rebooted_and_given_back(
    chart: Installed, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chart.install(PREPARING)
    judged = policies(PREPARING)
    rules = [rule for one in judged for rule in one.spec["matchConstraints"]["resourceRules"]]
    world = World(cluster, tmp_path / "world")
    world.certificates = True
    async with contextlib.AsyncExitStack() as stack:
        forbidden = stack.enter_context(refusals(monkeypatch, chart.names))
        clients: dict[str, Client] = {}
        for name in (MANAGER, WEBHOOK):
            clients[name] = await stack.enter_async_context(await chart.acting(name))
        await chart.granted(clients[MANAGER], right(FREEING[0]))
        world.managers_client = clients[MANAGER]
        seen = await stack.enter_async_context(reviews(chart, tmp_path / "reviews", rules))
        stack.push_async_callback(world.stop)
        await world.start()
        await stack.enter_async_context(webhook(chart, clients[WEBHOOK], tmp_path / "tls"))
        await until(lambda: asked(chart))
        for name in ("n1", "n2"):
            acting = await chart.acting(AGENT, node=name)
            world.agent_clients[name] = await stack.enter_async_context(acting)
            await of_its_daemon_set(world, f"{AGENT}-{name}")
            await world.add_server(name, BARE)
        await world.make_vm("web")
        await world.running("web")
        await evictable(world)

        await world.client.create(served(HostPolicy), POLICY)
        done = await world.until(
            served(HostPolicy), "gpus", lambda one: one.status.summary == "1 of 1"
        )
        if REAL:
            await world.clean()

    assert done.status.nodes[0].stage == "Ready"
    assert world.nodes["n1"].host.boots == 1
    assert not [one for one in forbidden if one.startswith("laneway-")]
    of_manager = [one for one in seen if one["userInfo"]["username"].endswith(MANAGER)]
    assert {one["resource"]["resource"] for one in of_manager} >= {"nodes"}
    for one in of_manager:
        said = [policy.verdict(one) for policy in judged if policy.concerns(one)]
        assert not any(said), one


async def of_its_daemon_set(world: World, pod: str) -> None:
    """Let the pod of an agent be what it is on a cluster."""
    found = await world.client.get(DAEMON_SETS, AGENT, LANEWAY)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": AGENT, "controller": True}
    owners = {"ownerReferences": [{**owner, "uid": found.metadata.uid}]}
    await world.client.patch(PODS, pod, {"metadata": owners}, LANEWAY)


async def evictable(world: World) -> None:
    """A pod on n1 that its workload would make again elsewhere."""
    labels = {"app": "shop"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "shop"}, "spec": spec}
    made = await world.client.create(DEPLOYMENTS, body, NAMESPACE)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "controller": True}
    pod = {
        "metadata": {
            "name": "shop",
            "labels": labels,
            "ownerReferences": [{**owner, "uid": made.metadata.uid}],
        },
        "spec": {"containers": [{"name": "a", "image": "a"}], "nodeName": "n1"},
    }
    await world.client.create(PODS, pod, NAMESPACE)
