"""From device to virtual machine, with every part of Laneway under exactly its own account."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.controllers.release.steps import release
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from support.accounts import (
    ACCOUNTS,
    AGENT,
    MANAGER,
    NAMESPACE,
    REAL,
    RELEASE,
    SECONDS,
    TOO_NEW,
    WEBHOOK,
    Installed,
    account,
    bound,
    refusals,
    reviews,
    right,
    until,
)
from support.accounts_webhook import asked, webhook
from support.every_kind import NODES, every_kind
from support.examples import first
from support.policies import policies, refusal
from support.worlds import World

PROFILE = "NVIDIA A2-2Q"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
VGPUS = ["node2-000008004", "node2-000008005"]
FUNCTION = "node2-000004001"
OTHER = "node1-000004001"


@pytest.fixture(params=first(True, False), ids=["a2-vfio, with DRA", "a2"])
def dra(request: pytest.FixtureRequest) -> bool:
    """Whether agents publish for dynamic resource allocation; also decides about the GPU."""
    return bool(request.param)


@pytest.fixture
async def world(
    cluster: Any, clients: dict[str, Client], dra: bool, tmp_path: Path
) -> AsyncIterator[World]:
    """A world whose manager is its account; it is not started."""
    world = World(cluster, tmp_path / "world")
    world.managers_client = clients[MANAGER]
    world.certificates, world.dra = True, dra
    try:
        yield world
    finally:
        if world.manager is not None:
            await world.stop()
        if REAL:
            await world.clean()


@pytest.fixture
def forbidden(chart: Installed, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every 403 that was answered."""
    with refusals(monkeypatch, chart.names) as seen:
        yield seen


@pytest.fixture
async def clients(chart: Installed, dra: bool) -> AsyncIterator[dict[str, Client]]:
    """The chart's objects, and a client of each account, which has its rights by now."""
    await chart.install({"uninstall": {"release": True}, "agent": {"dra": dra}})
    assert chart.left_out <= TOO_NEW
    async with contextlib.AsyncExitStack() as stack:
        found = {}
        for name in (*ACCOUNTS, RELEASE):
            found[name] = await stack.enter_async_context(await chart.acting(name))
        for name, last in (
            (AGENT, "get daemonsets.apps harvester-system/any"),
            (AGENT, "create events default/"),
            (MANAGER, "patch secrets harvester-system/laneway-webhook-tls"),
            (MANAGER, "create customresourcedefinitions.apiextensions.k8s.io"),
            (WEBHOOK, "create subjectaccessreviews.authorization.k8s.io"),
            (RELEASE, "list daemonsets.apps"),
        ):
            await chart.granted(found[name], right(last))
        yield found


@pytest.mark.realapi
@pytest.mark.slow
async def test_machine_gets_its_devices_while_everybody_has_its_own_account_only(
    chart: Installed,
    clients: dict[str, Client],
    world: World,
    forbidden: list[str],
    tmp_path: Path,
) -> None:
    async with reviews(chart, tmp_path / "reviews", watched()) as asked_about:
        await world.start()
        async with webhook(chart, clients[WEBHOOK], tmp_path / "tls"):
            await until(lambda: asked(chart))
            async with contextlib.AsyncExitStack() as stack:
                nodes = {"node1": "plain", "node2": "a2-vfio" if world.dra else "a2", **NODES}
                for name, spec in nodes.items():
                    node = await world.add(name, spec, agent=False)
                    acting = await chart.acting(AGENT, node=name)
                    world.agent_clients[name] = await stack.enter_async_context(acting)
                    await world.start_agent(node)
                    stack.push_async_callback(world.kill_agent, node)
                await every_kind(world)
                await story(world, chart, clients[RELEASE])

    assert not [one for one in forbidden if one.startswith("laneway-")]
    of_agents = [one for one in asked_about if one["userInfo"]["username"].endswith(AGENT)]
    assert {one["resource"]["resource"] for one in of_agents} >= {"nodes", "pcideviceclaims"}
    judged = policies()
    for one in of_agents:
        # Each token is of one node, though not every server says which.
        said = [refusal(judged, one, name) for name in nodes]
        shared = one["resource"]["resource"] == "vgpulayouts"  # each agent sums up a layout
        assert said.count("") == 1 or (shared and "" in said), (one, said)
    of_manager = [one for one in asked_about if one["userInfo"]["username"].endswith(MANAGER)]
    assert {one["resource"]["resource"] for one in of_manager} >= {"kubevirts", "virtualmachines"}
    for one in of_manager:
        assert refusal(judged, one, "node1") == "", one


def watched() -> list[dict[str, Any]]:
    """What the policies are about."""
    return [
        rule for policy in policies() for rule in policy.spec["matchConstraints"]["resourceRules"]
    ]


async def story(world: World, chart: Installed, giving_back: Client) -> None:
    """That of the claims: two vGPUs and a function go to a machine, and come back."""
    node = world.nodes["node2"]
    for name in VGPUS:
        await world.vgpu(name, PROFILE)
    # Who claims need not say so: admission knows.
    claim = await world.claim(FUNCTION, userName="")
    assert claim.spec.user_name == "admin"
    await world.allocatable("node2", VGPU, 2)
    await world.allocatable("node2", NIC, 1)

    await people(world, chart)

    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU, VGPU])
    instance = await world.running("vm1")
    assert instance.status.node_name == "node2"
    for kind, name in ((PCIDeviceClaim, FUNCTION), *((VGPUDevice, name) for name in VGPUS)):
        await world.until(served(kind), name, is_owned)

    # What it has is kept for it, in words that say whose it is.
    with pytest.raises(ForbiddenError, match=r"in use with .*vm1"):
        await world.client.delete(served(PCIDeviceClaim), FUNCTION)
    with pytest.raises(ForbiddenError, match=r"in use with .*vm1"):
        await world.client.patch(served(VGPUDevice), VGPUS[0], {"spec": {"enabled": False}})
    # And a third vGPU is nowhere to be had.
    with pytest.raises(ForbiddenError, match=VGPU):
        await world.make_vm("vm2", gpus=[VGPU])

    await world.delete_vm("vm1")
    await world.until(served(PCIDeviceClaim), FUNCTION, lambda one: not is_owned(one))
    for name in VGPUS:
        await world.until(served(VGPUDevice), name, lambda one: not is_owned(one))
    assert await release(giving_back, (), str, seconds=SECONDS) == ()
    for name in VGPUS:  # Their functions have gone as well.
        await world.until(served(VGPUDevice), name, lambda one: one is None)
    device = await world.client.get(served(PCIDevice), FUNCTION)
    assert device.status.kernel_driver_in_use == "igb"
    assert not node.holders()
    await world.until(KUBEVIRTS, "kubevirt", permits_nothing, NAMESPACE)


async def people(world: World, chart: Installed) -> None:
    """A user who may make claims decides about their own, and an administrator about all."""
    await chart.apply(account("person"))
    for obj in (CLAIMER, bound("person", CLAIMER["metadata"]["name"])):
        await chart.apply(obj)
    async with await chart.acting("person", "default") as person:
        await chart.granted(person, right("delete pcideviceclaims.devices.harvesterhci.io"))
        with pytest.raises(ForbiddenError, match="admin"):
            await person.delete(served(PCIDeviceClaim), FUNCTION)
        with pytest.raises(ForbiddenError, match="admin"):
            await claimed(world, person, userName="admin")
        claim = await claimed(world, person, userName="")
        assert claim.spec.user_name == "system:serviceaccount:default:person"
        await person.delete(served(PCIDeviceClaim), OTHER)
        await world.until(served(PCIDeviceClaim), OTHER, lambda one: one is None)

        # The webhook asks the API server who may do more. It keeps answers for some seconds.
        await chart.apply(account("chief"))
        await chart.apply(bound("chief", "laneway-admin"))
        async with await chart.acting("chief", "default") as chief:
            administer = "administer pcideviceclaims.devices.harvesterhci.io"
            await chart.granted(chief, right(administer))
            await claimed(world, person, userName="")
            await chief.delete(served(PCIDeviceClaim), OTHER)
            await world.until(served(PCIDeviceClaim), OTHER, lambda one: one is None)


async def claimed(world: World, client: Client, **spec: str) -> Any:
    """Claim a free function, as a user."""
    device = await world.client.get(served(PCIDevice), OTHER)
    body = {
        "apiVersion": device.api_version,
        "kind": "PCIDeviceClaim",
        "metadata": {"name": OTHER},
        "spec": {
            "address": device.status.address,
            "nodeName": device.status.node_name,
            **spec,
        },
    }
    return await client.create(served(PCIDeviceClaim), body)


CLAIMER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "laneway-test-claimer"},
    "rules": [
        {
            "apiGroups": ["devices.harvesterhci.io"],
            "resources": ["pcideviceclaims"],
            "verbs": ["create", "delete"],
        }
    ],
}


def is_owned(obj: Any) -> bool:
    return obj.status.allocation is not None and obj.status.allocation.virtual_machine == "vm1"


def permits_nothing(kubevirt: Any) -> bool:
    lists = kubevirt.spec.configuration.permitted_host_devices
    return not lists.pci_host_devices and not lists.mediated_devices
