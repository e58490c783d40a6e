"""Moves that do not come to their end: what was done is undone, and each VM is as it was."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from laneway.api import VGPUDevice, VGPULayout
from laneway.changes.moving import lock
from laneway.changes.moving.all_moves import Result
from laneway.changes.moving.work import MovesListener
from laneway.cli.planning.moving import work_of
from laneway.core.fleet.moves import least_moves
from laneway.kube.kubevirt import MIGRATIONS, VIRTUAL_MACHINES
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import FINALIZER_INSTANCE, INSTANCES, Instance
from laneway.simcluster.objects import NODES
from support.commands import Laneway, ended, shell
from support.commands import started as command
from support.moving import (
    ON_1,
    ON_2,
    Q8,
    RESOURCE,
    RULE,
    WANTED,
    Hooked,
    carried_out,
    half_full,
    migrating_vgpus,
    profiles,
    proposed,
    reading,
    reserved,
)
from support.worlds import NAMESPACE, SimNode, World

APPLY = ("plan", "moves", "A2-16Q", "--apply", "--yes")
MAKING = "waiting for the agent of node2"
STOPPING = "waiting until default/on-node1 has stopped"


@pytest.fixture
async def nodes(world: World) -> list[SimNode]:
    return await half_full(world)


async def as_before(world: World, nodes: list[SimNode]) -> None:
    """The VM runs where it did, is free to start anywhere, and both GPUs carry what they did."""
    assert (await world.running("on-node1")).status.node_name == "node1"
    assert [profiles(node) for node in nodes] == [[Q8], [Q8]]
    vm = await world.client.get(VIRTUAL_MACHINES, "on-node1", NAMESPACE)
    assert (vm.spec.run_strategy, vm.spec.template.spec.node_selector) == ("Always", {})


async def test_a_vm_that_was_started_before_its_turn_is_left_alone(
    world: World, nodes: list[SimNode]
) -> None:
    await world.stop_vm("on-node1")
    await reserved(world, ON_1)
    found = await proposed(world)
    await world.run_vm("on-node1", on=True)
    await world.running("on-node1")
    result = await carried_out(world, found)
    assert result.why == (
        "the cluster has changed: default/on-node1: it was stopped, and it runs and cannot be "
        "migrated now"
    )
    assert (result.done, result.failed, result.left) == ((), None, found.moves)
    assert "default/on-node1 runs on node node1 with vGPUs of node1-000008000" in result.states
    await as_before(world, nodes)


@pytest.mark.slow
async def test_a_vm_that_is_started_while_it_moves_gets_back_what_was_kept_for_it(
    world: World, nodes: list[SimNode]
) -> None:
    await world.stop_vm("on-node1")
    await reserved(world, ON_1)

    async def start() -> None:
        await cordoned(world, "node2")  # or it may get the vGPU that has just been made there
        await world.run_vm("on-node1", on=True)
        await world.running("on-node1")

    found, hook = await proposed(world), Hooked(MAKING, start)
    result = await carried_out(world, found, hook)
    await hook.done()
    assert result.failed == found.moves[0], result.why
    assert (result.done, result.kept) == ((), ())
    await as_before(world, nodes)


@pytest.mark.slow
async def test_moves_that_are_done_stay_where_a_later_one_fails(world: World) -> None:
    resource, nodes = "nvidia.com/NVIDIA_A2-4Q", []
    for node in ("node1", "node2"):
        nodes.append(await world.add(node, "a2-vfio"))
        for number in (4, 5):
            await world.vgpu(f"{node}-00000800{number}", "NVIDIA A2-4Q")
            await world.make_vm(f"{node}-{number}", gpus=[resource])
            await world.running(f"{node}-{number}")
    seen = await work_of(world.client, 60, MovesListener()).look()
    found = least_moves(seen.fleet, WANTED, restart=True)
    first, second = found.moves
    stopping = f"waiting until {second.vm} has stopped"
    hook = Hooked(stopping, lambda: cordoned(world, second.target))
    result = await carried_out(world, found, hook, seconds=5)
    await hook.done()
    assert (result.done, result.failed, result.kept, result.left) == ((first,), second, (), ())
    for move, node in ((first, first.target), (second, second.source)):
        name = move.vm.removeprefix("default/")
        assert (await world.running(name)).status.node_name == node
    assert sorted(len(profiles(node)) for node in nodes) == [1, 3]


async def cordoned(world: World, node: str, *, on: bool = True) -> None:
    await world.client.patch(NODES, node, {"spec": {"unschedulable": on}})


@pytest.mark.slow
async def test_a_target_that_another_program_has_filled_is_not_touched(
    world: World, nodes: list[SimNode]
) -> None:
    found = await proposed(world, restart=True)
    await world.vgpu("node2-000008007", Q8)
    await world.make_vm("other", gpus=[RESOURCE])
    await world.running("other")
    result = await carried_out(world, found)
    assert result.why.startswith("the cluster has changed: there is no room for it any more on ")
    assert (await world.running("on-node1")).status.node_name == "node1"
    assert [profiles(node) for node in nodes] == [[Q8], [Q8, Q8]]


@pytest.mark.slow
async def test_a_new_vgpu_that_another_vm_takes_stays_and_is_told(
    world: World, nodes: list[SimNode]
) -> None:
    found = await proposed(world, restart=True)

    async def other() -> None:
        await world.make_vm("other", gpus=[RESOURCE], node="node2")
        await world.running("other")

    hook = Hooked(STOPPING, other)
    result = await carried_out(world, found, hook, seconds=4)
    await hook.done()
    assert result.failed == found.moves[0]
    [kept] = result.kept
    assert kept.startswith("could not remove the vGPU that was made on node2-000008000: ")
    assert (await world.running("on-node1")).status.node_name == "node1"
    assert (await world.running("other")).status.node_name == "node2"


@pytest.mark.slow
async def test_a_migration_that_finds_no_node_is_canceled(world: World) -> None:
    await migrating_vgpus(world)
    nodes = await half_full(world, "a2")
    before = await world.running("on-node1")
    hook = Hooked(MAKING, lambda: cordoned(world, "node2"))
    result = await carried_out(world, await proposed(world), hook, seconds=4)
    await hook.done()
    assert (result.why, result.kept) == ("not finished within 4 s", ())
    assert (await world.running("on-node1")).metadata.uid == before.metadata.uid
    [migration] = [one async for page in world.client.list(MIGRATIONS) for one in page.items] or [0]
    assert not migration or MIGRATIONS.decode(migration).status.phase == "Failed"
    await as_before(world, nodes)


@pytest.mark.slow
async def test_a_vm_that_does_not_start_in_time_starts_again_where_it_was(
    world: World, nodes: list[SimNode]
) -> None:
    found = await proposed(world, restart=True)
    hook = Hooked(STOPPING, lambda: cordoned(world, "node2"))
    result = await carried_out(world, found, hook, seconds=4)
    await hook.done()
    assert result.why == "not finished within 4 s"
    assert (result.failed, result.kept, result.left) == (found.moves[0], (), ())
    assert "default/on-node1 runs on node node1 with vGPUs of node1-000008000" in result.states
    await as_before(world, nodes)


async def test_a_vm_that_stops_for_longer_than_the_time_limit_starts_again_afterwards(
    world: World, nodes: list[SimNode]
) -> None:
    found = await proposed(world, restart=True)
    held = {"metadata": {"finalizers": [FINALIZER_INSTANCE, "example.com/slow"]}}
    await world.client.patch(INSTANCES, "on-node1", held, NAMESPACE)
    result = await carried_out(world, found, seconds=3)
    assert result.kept == ("could not start default/on-node1 again: not finished within 3 s",)
    [state] = [one for one in result.states if one.startswith("default/on-node1 ")]
    assert state.startswith("default/on-node1 is stopping on node node1")
    seen = await work_of(world.client, 60, MovesListener()).look()
    assert least_moves(seen.fleet, WANTED, restart=True).moves[0].vm != "default/on-node1"
    free = {"metadata": {"finalizers": None}}  # KubeVirt has taken off its own.
    await world.client.patch(INSTANCES, "on-node1", free, NAMESPACE)
    await as_before(world, nodes)


async def test_a_vm_that_is_interrupted_while_it_starts_runs_again_where_it_was(
    world: World, nodes: list[SimNode]
) -> None:
    await world.vgpu("node2-000008005", Q8)
    await world.allocatable("node2", RESOURCE, 2)
    found = await proposed(world, restart=True)
    starting = "waiting until default/on-node1 runs"
    moving: asyncio.Task[Result]

    async def interrupt() -> None:
        moving.cancel()

    hook = Hooked(starting, interrupt)
    moving = asyncio.create_task(carried_out(world, found, hook))
    result = await moving
    assert (result.interrupted, result.kept) == (True, ())
    assert "VGPUDevice node2-000008005 is enabled, and no VM has it" in result.states
    assert (await world.running("on-node1")).status.node_name == "node1"
    vm = await world.client.get(VIRTUAL_MACHINES, "on-node1", NAMESPACE)
    assert (vm.spec.run_strategy, vm.spec.template.spec.node_selector) == ("Always", {})
    assert [profiles(node) for node in nodes] == [[Q8], [Q8, Q8]]


@pytest.mark.slow
async def test_a_removal_that_is_not_over_is_told_and_no_further_run_uses_what_goes(
    world: World, nodes: list[SimNode], laneway: Laneway
) -> None:
    found = await proposed(world, restart=True)
    moving: asyncio.Task[Result]

    async def interrupt() -> None:
        await world.kill_agent(nodes[1])
        moving.cancel()

    hook = Hooked(STOPPING, interrupt)
    moving = asyncio.create_task(carried_out(world, found, hook, seconds=5))
    result = await moving
    [going] = [words for words in result.kept if "node2-000008005: its removal" in words]
    assert going.endswith("To watch: kubectl get vgpudevice node2-000008005 --watch")
    refused = await laneway(*APPLY, "--restart", status=1)
    assert going in refused.err
    assert "refused; nothing was changed" in refused.err
    vgpu = await world.client.get(served(VGPUDevice), "node2-000008005")
    assert not vgpu.spec.enabled
    await world.start_agent(nodes[1])
    await world.until(served(VGPUDevice), "node2-000008005", lambda one: not one.status.vgpu_status)
    await as_before(world, nodes)


async def test_a_vm_whose_pod_is_rejected_at_its_start_is_started_again(
    world: World, nodes: list[SimNode]
) -> None:
    found = await proposed(world, restart=True)
    last = (await world.running("on-node1")).metadata.uid
    moving: asyncio.Task[Result]

    def waits(one: Instance | None) -> bool:
        return one is not None and one.metadata.uid != last and one.status.phase == "Scheduling"

    async def reject() -> None:
        """As a kubelet does that still sees the last pod."""
        await cordoned(world, "node1")
        moving.cancel()
        await world.until(INSTANCES, "on-node1", waits, NAMESPACE)
        rejected = {"type": "Ready", "status": "False", "message": "Pod was rejected"}
        body = {"status": {"phase": "Failed", "conditions": [rejected]}}
        await world.client.patch(INSTANCES, "on-node1", body, NAMESPACE)
        await cordoned(world, "node1", on=False)

    hook = Hooked(STOPPING, reject)
    moving = asyncio.create_task(carried_out(world, found, hook))
    result = await moving
    assert (result.interrupted, result.kept) == (True, ())
    assert "waiting until KubeVirt starts default/on-node1 again: Pod was rejected" in hook.told
    await as_before(world, nodes)


async def test_an_interrupted_move_is_undone(
    world: World, nodes: list[SimNode], tmp_path: Path
) -> None:
    options = ("--restart", "--timeout", "90")
    process = await command(*APPLY, *options, kubeconfig=str(tmp_path / "kubeconfig"))
    assert process.stdout is not None
    async for line in process.stdout:
        if STOPPING.encode() in line:
            break
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert done.status == 130
    assert "undone: restart default/on-node1 from node node1 to node node2" in done.err
    further = "To go on from here: laneway plan moves A2-16Q --restart --apply --timeout=90"
    assert done.err.splitlines()[-1].endswith(further)
    await as_before(world, nodes)


async def test_only_one_makes_moves_at_a_time(
    world: World, nodes: list[SimNode], laneway: Laneway
) -> None:
    async with lock.alone(work_of(world.client, 60, MovesListener())):
        refused = await laneway(*APPLY, "--restart", status=1)
    assert "another laneway plan moves is at work" in refused.err
    await as_before(world, nodes)


@pytest.mark.slow
async def test_a_layout_of_several_gpus_is_refused_with_what_helps(
    world: World, laneway: Laneway
) -> None:
    nodes = await half_full(world, shared=True)
    refused = await laneway(*APPLY, "--restart", status=1)
    assert "VGPULayout both configures node2/0000:08:00.0" in refused.err
    assert "(kubectl delete vgpulayout both)" in refused.err
    assert "refused; nothing was changed" in refused.err
    assert [profiles(node) for node in nodes] == [[Q8], [Q8]]
    await world.client.delete(served(VGPULayout), "both")
    for vgpu in (ON_1, ON_2):
        await world.until(served(VGPUDevice), vgpu, lambda one: one.status.owner == "VGPUDevices")
    await laneway(*APPLY, "--restart")
    assert [profiles(node) for node in nodes] == [[], [Q8, Q8]]


async def test_a_user_who_may_not_list_vms_makes_no_moves(
    world: World, nodes: list[SimNode], tmp_path: Path
) -> None:
    groups = ["", "devices.harvesterhci.io", "coordination.k8s.io", "authorization.k8s.io"]
    seeing = await reading(world, tmp_path, {**RULE, "apiGroups": groups, "verbs": ["*"]})
    refused = await shell(seeing)(*APPLY, "--restart", status=1)
    said = refused.err.splitlines()[-1]
    assert said.startswith("laneway: nothing was changed: the cluster cannot be read completely: ")
    for kind in ("virtualmachines", "virtualmachineinstances"):
        assert f"you may not list {kind}.kubevirt.io" in said
    assert refused.out == ""
    await as_before(world, nodes)


async def test_nothing_is_changed_without_the_rights_or_without_an_answer(
    world: World, nodes: list[SimNode], laneway: Laneway, tmp_path: Path
) -> None:
    refused = await laneway(*APPLY[:-1], "--restart", status=1)
    assert "standard input is no terminal" in refused.err
    assert "add --yes" in refused.err
    reader = await reading(world, tmp_path)
    refused = await shell(reader)(*APPLY, "--restart", status=1)
    assert refused.err.splitlines() == [
        "you may not patch vgpudevices.devices.harvesterhci.io.",
        "you may not patch virtualmachines.kubevirt.io in namespace default.",
        "you may not create leases.coordination.k8s.io in namespace default.",
        "you may not patch leases.coordination.k8s.io in namespace default.",
        "laneway: refused; nothing was changed",
    ]
    await as_before(world, nodes)
