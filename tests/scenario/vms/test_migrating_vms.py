"""VMs that go to another node while they run, and those that stay."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from laneway.api import find_condition
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import MIGRATIONS, VirtualMachineInstanceMigration
from laneway.kube.pods import PODS, Pod
from laneway.simcluster.kubevirt.manifest import target_name
from laneway.simcluster.kubevirt.migrating import ANNOTATION_TIMEOUT, LABEL_TARGET
from laneway.simcluster.kubevirt.objects import FINAL, INSTANCES, LABEL_NODE, Instance
from laneway.simcluster.objects import NODES
from support.worlds import NAMESPACE, SECONDS, SimNode, World

NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
CLAIM = "node1-000004001"
PHASES = (
    "",
    "Pending",
    "Scheduling",
    "Scheduled",
    "PreparingTarget",
    "TargetReady",
    "Running",
    "Succeeded",
)


@pytest.fixture
async def nodes(world: World) -> list[SimNode]:
    """A VM without devices on node1, which is cordoned, and node2."""
    node1 = await world.add("node1", "plain", agent=False)
    await world.make_vm("vm")
    await world.running("vm")
    node2 = await world.add("node2", "plain", agent=False)
    await cordon(world, "node1")
    return [node1, node2]


async def cordon(world: World, node: str, *, on: bool = True) -> None:
    await world.client.patch(NODES, node, {"spec": {"unschedulable": on}})


async def migrate(world: World, name: str = "go", vm: str = "vm", **annotations: str) -> None:
    """Ask for the migration of a VM."""
    body = {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"vmiName": vm},
    }
    await world.client.create(MIGRATIONS, body, NAMESPACE)


async def ended(world: World, name: str = "go") -> VirtualMachineInstanceMigration:
    """A migration, once it is over."""
    return await world.until(
        MIGRATIONS, name, lambda one: one is not None and one.status.phase in FINAL, NAMESPACE
    )


async def waiting(world: World, name: str = "go") -> Pod:
    """The pod of a migration, once it fits nowhere."""
    migration = await world.client.get(MIGRATIONS, name, NAMESPACE)
    return await world.until(
        PODS,
        target_name(migration),
        lambda one: one is not None and find_condition(one.status.conditions, "PodScheduled"),
        NAMESPACE,
    )


def words(migration: VirtualMachineInstanceMigration) -> str:
    """Why it failed."""
    assert migration.status.phase == "Failed"
    assert migration.status.migration_state is not None
    return migration.status.migration_state.failure_reason


@pytest.mark.realapi
async def test_a_vm_leaves_a_cordoned_node_and_runs_on(world: World, nodes: list[SimNode]) -> None:
    before = await world.running("vm")
    source = await world.pod("vm")
    await migrate(world)
    migration = await ended(world)
    assert migration.status.phase == "Succeeded"
    instance = await world.running("vm")
    assert instance.metadata.uid == before.metadata.uid
    target = await world.pod("vm")
    assert (target.spec.node_name, instance.status.node_name) == ("node2", "node2")
    assert instance.metadata.labels[LABEL_NODE] == "node2"
    assert LABEL_TARGET not in instance.metadata.labels
    state = instance.status.migration_state
    assert state is not None
    assert migration.status.migration_state == state
    assert (state.source_node, state.target_node) == ("node1", "node2")
    assert (state.completed, state.failed) == (True, False)
    # The pod that it has left is over, and no other holds anything.
    await world.until(
        PODS, source.metadata.name, lambda pod: pod.status.phase == "Succeeded", NAMESPACE
    )
    assert [node.runtime.uids for node in nodes] == [[], [target.metadata.uid]]
    await world.delete_vm("vm")
    pods = world.client.list(PODS, namespace=NAMESPACE, label_selector="kubevirt.io=virt-launcher")
    assert not [page.items async for page in pods if page.items]
    await world.until(MIGRATIONS, "go", lambda one: one is None or one.status.phase, NAMESPACE)


async def test_it_comes_back_as_often_as_it_is_asked_to(world: World, nodes: list[SimNode]) -> None:
    await migrate(world)
    await ended(world)
    await cordon(world, "node1", on=False)
    await migrate(world, "back")
    assert (await ended(world, "back")).status.phase == "Succeeded"
    assert (await world.running("vm")).status.node_name == "node1"
    # What becomes of its last pod becomes of the VM, and what became of the others does not.
    await world.run_vm("vm", on=False)
    await world.status("vm", "Stopped")


@pytest.mark.realapi
async def test_a_vm_with_a_device_is_not_migrated(world: World) -> None:
    await world.add("node1", "plain")
    await world.claim(CLAIM)
    await world.allocatable("node1", NIC, 1)
    await world.make_vm("vm", host_devices=[NIC])
    instance = await world.running("vm")

    def is_said(one: Instance) -> bool:
        said = find_condition(one.status.conditions, "LiveMigratable")
        return said is not None and said.reason == "HostDeviceNotLiveMigratable"

    assert is_said(instance)
    # As where the VM was started by a KubeVirt that did not say so.
    await world.client.patch(INSTANCES, "vm", {"status": {"conditions": []}}, NAMESPACE)
    await world.until(INSTANCES, "vm", is_said, NAMESPACE)
    await migrate(world)
    assert words(await ended(world)) == (
        "Cannot migrate VMI, Reason: HostDeviceNotLiveMigratable, "
        "Message: VMI uses a PCI host devices"
    )
    assert (await world.pod("vm")).spec.node_name == "node1"


async def test_it_waits_for_room_and_gives_up_when_told_how_long(
    world: World, nodes: list[SimNode]
) -> None:
    await cordon(world, "node2")
    await migrate(world)
    pod = await waiting(world)
    [said] = [one.message for one in pod.status.conditions]
    assert said == "0/2 nodes are available: 2 node(s) were unschedulable."
    assert (await world.client.get(MIGRATIONS, "go", NAMESPACE)).status.phase == "Scheduling"
    # The node on which it is has room, and is no other one.
    await cordon(world, "node1", on=False)
    await world.until(
        PODS,
        pod.metadata.name,
        lambda one: "anti-affinity" in one.status.conditions[0].message,
        NAMESPACE,
    )
    await migrate(world, "other")
    assert "another migration job is in progress" in words(await ended(world, "other"))
    await cordon(world, "node2", on=False)
    assert (await ended(world)).status.phase == "Succeeded"
    await cordon(world, "node1")
    await migrate(world, "late", **{ANNOTATION_TIMEOUT: "0"})
    assert words(await ended(world, "late")) == (
        "Migration target pod was removed during active migration."
    )
    assert (await world.running("vm")).status.node_name == "node2"


async def test_a_vm_that_ends_meanwhile_ends_its_migration(
    world: World, nodes: list[SimNode]
) -> None:
    await cordon(world, "node2")
    await migrate(world)
    pod = await waiting(world)
    await world.shut_down("vm", 1)
    assert words(await ended(world)) == "Migration failed vmi shutdown during migration."
    await world.until(PODS, pod.metadata.name, lambda one: one is None, NAMESPACE)


async def test_a_migration_that_is_canceled_leaves_nothing(
    world: World, nodes: list[SimNode]
) -> None:
    await cordon(world, "node2")
    await migrate(world)
    pod = await waiting(world)
    await world.client.delete(MIGRATIONS, "go", NAMESPACE)
    for resource, name in ((MIGRATIONS, "go"), (PODS, pod.metadata.name)):
        await world.until(resource, name, lambda one: one is None, NAMESPACE)
    assert (await world.running("vm")).status.node_name == "node1"


def dying(client: Client) -> tuple[Client, asyncio.Event]:
    """The same client, whose user is killed with the first write, before it sees the answer."""
    written = asyncio.Event()
    same = copy.copy(client)

    async def call(method: str, path: str, *rest: Any) -> bytes:
        counts = method != "GET" and not path.endswith("/events")
        if not (counts and written.is_set()):
            answer = await client.call(method, path, *rest)
            if not counts:
                return answer
            written.set()
        return await asyncio.get_running_loop().create_future()

    same.call = call  # type: ignore[method-assign]
    return same, written


async def test_killed_after_every_write_it_goes_on_where_it_was(
    world: World, nodes: list[SimNode]
) -> None:
    source = await world.pod("vm")
    await world.kill_kubevirt()
    await migrate(world)
    phases = []
    while True:
        client, written = dying(world.client)
        world.start_kubevirt(client)
        async with asyncio.timeout(SECONDS):
            await written.wait()
        await world.kill_kubevirt()
        migration = await world.client.get(MIGRATIONS, "go", NAMESPACE)
        phases.append(migration.status.phase)
        assert (await world.client.get(INSTANCES, "vm", NAMESPACE)).status.phase == "Running"
        if phases[-1] in FINAL and not migration.metadata.finalizers:
            break
    assert phases == sorted(phases, key=PHASES.index)
    assert set(phases) == set(PHASES)
    target = await world.pod("vm")
    assert target.spec.node_name == "node2"
    await world.until(
        PODS, source.metadata.name, lambda pod: pod.status.phase == "Succeeded", NAMESPACE
    )
    assert nodes[1].runtime.uids == [target.metadata.uid]


async def test_an_instance_that_is_to_leave_its_node_leaves_it_where_its_strategy_says_so(
    world: World, nodes: list[SimNode]
) -> None:
    await cordon(world, "node1", on=False)
    await world.make_vm("other", node="node1")
    await world.running("other")
    await cordon(world, "node1")
    strategy = {"spec": {"evictionStrategy": "LiveMigrate"}}
    await world.client.patch(INSTANCES, "vm", strategy, NAMESPACE)
    leave = {"status": {"evacuationNodeName": "node1"}}
    for name in ("other", "vm"):
        await world.client.patch(INSTANCES, name, leave, NAMESPACE)

    def left(one: Instance) -> bool:
        return one.status.node_name == "node2" and not one.status.evacuation_node_name

    await world.until(INSTANCES, "vm", left, NAMESPACE)
    [page] = [page async for page in world.client.list(MIGRATIONS, NAMESPACE)]
    assert [MIGRATIONS.decode(item).spec.vmi_name for item in page.items] == ["vm"]


async def test_a_migration_of_no_vm_goes(world: World) -> None:
    await migrate(world)
    await world.until(MIGRATIONS, "go", lambda one: one is None, NAMESPACE)
    with pytest.raises(NotFoundError):
        await world.client.get(INSTANCES, "vm", NAMESPACE)
