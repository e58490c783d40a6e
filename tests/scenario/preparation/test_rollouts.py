"""From servers as the installer left them to nodes with an IOMMU, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from laneway.api import CoreNode, HostPolicy, HostPreparation, PCIDevice
from laneway.core.keys import ANNOTATION_REBOOT as REBOOT
from laneway.core.rollout.node import AWAY
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from laneway.sim.boot import CONFIG
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
BARE = "a2,iommu=off"


def boot(world: World, node: str) -> str:
    return world.nodes[node].host.read("/proc/sys/kernel/random/boot_id").decode().strip()


def command_line(world: World, node: str) -> list[str]:
    return world.nodes[node].host.read("/proc/cmdline").decode().split()


@contextlib.asynccontextmanager
async def away(world: World) -> AsyncIterator[list[set[str]]]:
    """The nodes that were away at once, at each moment from now on."""
    seen: list[set[str]] = []
    informer = Informer(world.client, served(HostPreparation))

    def look(_before: Any, _after: Any) -> None:
        seen.append({p.metadata.name for p in informer.store if p.spec.rollout.stage in AWAY})

    informer.subscribe(look)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    yield seen
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.realapi
async def test_servers_are_prepared_one_after_the_other(
    world: World, policy: Make, reason: Make
) -> None:
    names = ("n1", "n2", "n3")
    for name in names:
        await world.add_server(name, BARE)
    boots = {name: boot(world, name) for name in names}

    async with away(world) as seen:
        await policy()
        done = await reason("gpus", "RolledOut")

    assert {one.stage for one in done.status.nodes} == {"Ready"}
    assert max(map(len, seen)) == 1
    for name in names:
        assert "intel_iommu=on" in command_line(world, name)
        assert boot(world, name) != boots[name]
        device = f"{name}-000008000"
        await world.until(served(PCIDevice), device, lambda one: one.status.iommu_group != "")
        node = await world.client.get(served(CoreNode), name)
        assert not node.spec.unschedulable


async def test_the_roll_out_goes_on_wherever_its_manager_is_killed(
    world: World, policy: Make, reason: Make
) -> None:
    for name in ("n1", "n2"):
        await world.add_server(name, BARE)
    await policy()

    async with away(world) as seen:
        waiting = asyncio.ensure_future(reason("gpus", "RolledOut"))
        while not waiting.done():
            await world.restart_manager()
            await asyncio.wait({waiting}, timeout=0.15)

    assert max(map(len, seen), default=0) <= 1
    for name in ("n1", "n2"):
        assert world.nodes[name].host.boots == 1


@pytest.mark.realapi
async def test_a_vm_with_a_device_is_waited_for_and_named(
    world: World, policy: Make, reason: Make, stage: Make
) -> None:
    node = await world.add_server("n1", "a2")  # with an IOMMU, so that it can have a VM already
    vgpu = await world.vgpu("n1-000008004", "NVIDIA A2-4Q")
    await world.make_vm("desktop", gpus=[vgpu.status.resource_name])
    await world.running("desktop")

    await policy(kernelArguments=["pcie_aspm=off"])
    waiting = await stage("n1", "RebootPending", "default/desktop (holds devices)")

    assert waiting.status.stage == "Staged"
    assert await world.opened("desktop")
    assert node.host.boots == 0
    await world.stop_vm("desktop")
    await reason("gpus", "RolledOut")
    assert "pcie_aspm=off" in command_line(world, "n1")


async def test_a_damaged_configuration_stops_the_roll_out_before_the_reboot(
    world: World, policy: Make, reason: Make, stage: Make
) -> None:
    for name in ("n1", "n2"):
        await world.add_server(name, BARE)
    await policy(when="OnCommand")
    for name in ("n1", "n2"):
        await stage(name, "RebootPending", "laneway hosts reboot")
    damaged = world.nodes["n1"].host
    config = damaged.read(CONFIG).decode()
    damaged.replace(CONFIG, config[: len(config) // 2])

    spec = {"rollout": {"reboot": {"when": "WhenFree"}}}
    await world.client.patch(
        served(HostPolicy), "gpus", {"spec": {**spec, "nodeSelector": {"names": ["n1"]}}}
    )
    failed = await reason("gpus", "NodeFailed")
    await world.client.patch(served(HostPolicy), "gpus", {"spec": {"nodeSelector": None}})
    stopped = await stage("n2", "RebootPending", "n1 failed")

    [entry] = [one for one in failed.status.nodes if one.name == "n1"]
    assert "might not boot" in entry.message
    assert damaged.boots == world.nodes["n2"].host.boots == 0
    assert stopped.status.stage == "Staged"
    node = await world.client.get(served(CoreNode), "n1")
    assert not node.spec.unschedulable  # it runs as before

    damaged.replace(CONFIG, config)
    await world.client.patch(
        served(HostPreparation),
        "n1",
        {"metadata": {"annotations": {REBOOT: boot(world, "n1")}}},
    )
    await reason("gpus", "RolledOut")


async def test_an_empty_policy_takes_back_what_was_written(
    world: World, policy: Make, reason: Make
) -> None:
    node = await world.add_server("n1", BARE)
    before = command_line(world, "n1")
    await policy()
    await reason("gpus", "RolledOut")
    assert node.host.boots == 1

    empty = {"iommu": None, "vfioAtBoot": None, "blockedDrivers": None}
    await world.client.patch(served(HostPolicy), "gpus", {"spec": empty})

    def taken_back(one: Any) -> bool:
        return node.host.boots == 2 and one.status.stage == "Ready" and not one.spec.rollout.stage

    await world.until(served(HostPreparation), "n1", taken_back)
    assert command_line(world, "n1") == before


async def test_a_policy_that_is_deleted_leaves_its_nodes_as_they_are(
    world: World, policy: Make, reason: Make
) -> None:
    node = await world.add_server("n1", BARE)
    await policy()
    await reason("gpus", "RolledOut")
    prepared = command_line(world, "n1")
    await world.client.delete(served(HostPolicy), "gpus")

    found = await world.until(
        served(HostPreparation), "n1", lambda one: "No HostPolicy selects" in one.status.message
    )
    assert (found.status.stage, found.spec.policies) == ("Ready", [])
    assert (command_line(world, "n1"), node.host.boots) == (prepared, 1)


async def test_policies_that_contradict_each_other_change_nothing(
    world: World, policy: Make, reason: Make
) -> None:
    node = await world.add_server("n1", BARE)
    files = {path: node.host.read(path) for path in (CONFIG, "/etc/default/grub")}
    await policy("a", when="Never", kernelArguments=["pcie_aspm=off"], rollout={"paused": True})
    await world.until(
        served(HostPreparation), "n1", lambda one: one is not None and one.status.stage == "Planned"
    )
    await policy("b", when="Never", kernelArguments=["pcie_aspm=force"])

    for name in ("a", "b"):
        found = await reason(name, "PolicyContradiction")
        [condition] = found.status.conditions
        assert "kernel argument pcie_aspm is off in a and force in b" in condition.message
    assert {path: node.host.read(path) for path in files} == files


async def test_a_policy_says_when_it_selects_no_node_or_asks_the_impossible(
    world: World, policy: Make, reason: Make
) -> None:
    await world.add_server("n1", BARE)

    await policy("nowhere", nodeSelector={"names": ["n9"]}, iommu=True)
    await policy("odd", kernelArguments=["root=/dev/sda1"])

    [condition] = (await reason("nowhere", "NoNodeMatches")).status.conditions
    assert "spec.nodeSelector" in condition.message
    [condition] = (await reason("odd", "InvalidPolicy")).status.conditions
    assert "root=/dev/sda1" in condition.message
