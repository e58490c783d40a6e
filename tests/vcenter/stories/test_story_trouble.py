"""What goes wrong while machines are made: nothing surplus, nothing leaked, a word to everybody.

Every order cut off before and after is in tests/vcenter/machines. Here whole managers die and
others lead, several things go wrong at once, and vCenters stand side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from laneway.kube.leader import LEASES
from laneway.roles.manager import LEASE
from support.clusterapi import MACHINES
from support.vcenter import Simulator

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
VGPU = {"vGPUProfile": "grid_t4-8q"}
GPU = "nvidia.com/gpu"
SECONDS = 60.0
MAKING = ("CloneVM_Task", "UpgradeVM_Task", "ReconfigVM_Task", "PowerOnVM_Task")
ENDING = ("PowerOffVM_Task", "Destroy_Task")


async def happens(holds: Callable[[], bool]) -> None:
    """Wait for something in vCenter that has no event."""
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def running(vcenter: Simulator, method: str) -> bool:
    return any(task["state"] in {"running", "queued"} for task in vcenter.tasks(method))


@pytest.mark.realapi
async def test_managers_die_at_every_step_and_others_lead(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""], "DC0_C0_H1": [""]})
    leader = await world.site(vcenter)
    vcenter.hold(MAKING[0])
    await world.pool("workers", T4, replicas=4)
    for method, following in zip(MAKING, (*MAKING[1:], ""), strict=True):
        await happens(lambda method=method: running(vcenter, method))
        if following:
            vcenter.hold(following)
        leader = await world.succeed(leader)
        vcenter.release(method)
    await world.ready("workers", 3)
    await world.refused("workers", 1)
    assert len(see.made(vcenter)) == 3
    assert len(vcenter.tasks("CloneVM_Task")) == 3
    assert all(len(vm["devices"]) == 1 for vm in see.made(vcenter).values())
    assert len(vcenter.users()) == 3
    world.exact(vcenter)

    vcenter.hold(ENDING[0])
    await world.scale("workers", 0)
    for method, following in zip(ENDING, (*ENDING[1:], ""), strict=True):
        await happens(lambda method=method: running(vcenter, method))
        if following:
            vcenter.hold(following)
        leader = await world.succeed(leader)
        vcenter.release(method)
    await world.nothing_left(vcenter)


@contextlib.asynccontextmanager
async def process(world: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """`laneway manager` as people start it, until it is killed outright."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "laneway", "manager", "--kubeconfig", world.kubeconfig),
        *("--namespace", "default", "--vsphere", "standalone"),
        *("--webhook-certificates", "none", "--health-address", "127.0.0.1:0"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        await started.wait()


async def test_a_process_is_killed_outright(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""]})
    await world.vcenter(vcenter)
    await world.cluster(vcenter)
    vcenter.hold("ReconfigVM_Task")
    async with process(world):
        await world.pool("workers", T4, replicas=2)
        await happens(lambda: running(vcenter, "ReconfigVM_Task"))
    vcenter.release()
    await world.delete(LEASES, LEASE)  # its end need not be waited for
    async with process(world):
        await world.ready("workers", 2)
        assert len(vcenter.tasks("CloneVM_Task")) == len(see.made(vcenter)) == 2
        assert all(len(vm["devices"]) == 1 for vm in see.made(vcenter).values())
        await world.scale("workers", 0)
        await happens(lambda: bool(vcenter.tasks("PowerOffVM_Task")))
    await world.delete(LEASES, LEASE)
    async with process(world):
        await world.nothing_left(vcenter)


async def test_one_stands_by_while_another_leads(world: Any, vcenter: Simulator, see: Any) -> None:
    first = await world.site(vcenter)
    await world.pool("workers", VGPU)
    await world.ready("workers", 1)
    await world.lead()
    await world.kill(first)
    await world.scale("workers", 2)
    await world.ready("workers", 2)
    assert len(see.made(vcenter)) == 2
    world.exact(vcenter)


async def test_everything_goes_wrong_once(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""], "DC0_C0_H1": ["", ""]})
    vcenter.fail("CloneVM_Task", "NoDiskSpace", "There is no space left.")
    vcenter.drop("CloneVM_Task", after=True)
    vcenter.drop("UpgradeVM_Task")
    vcenter.fail("ReconfigVM_Task", "HostCommunication", "The host does not answer.")
    vcenter.drop("ReconfigVM_Task", after=True)
    vcenter.nonsense("PowerOnVM_Task", "<html>502</html>", status=502)
    vcenter.hold("PowerOnVM_Task")
    await world.site(vcenter)
    await world.pool("workers", T4, replicas=3)
    await happens(lambda: running(vcenter, "PowerOnVM_Task"))
    vcenter.cut_connections()
    vcenter.expire_sessions()
    vcenter.release()
    await world.ready("workers", 3)
    assert len(see.made(vcenter)) == 3
    assert all(len(vm["devices"]) == 1 for vm in see.made(vcenter).values())
    assert len(vcenter.users()) == 3
    world.exact(vcenter)
    vcenter.drop("Destroy_Task", after=True)
    vcenter.fail("PowerOffVM_Task", "HostCommunication", "The host does not answer.")
    await world.scale("workers", 0)
    await world.nothing_left(vcenter)


async def test_a_task_that_hangs_delays_no_others(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""]})
    vcenter.hold("PowerOnVM_Task", vm="slow-*")
    await world.site(vcenter)
    await world.pool("slow", T4)
    await happens(lambda: running(vcenter, "PowerOnVM_Task"))
    await world.pool("quick", T4)
    await world.ready("quick", 1)
    [infra] = see.of_pool(world.infra.all, "slow")
    await world.vms.until(
        lambda all_: any(
            one.metadata.name == infra.metadata.name
            and see.said(one, "VirtualMachineProvisioned")[:2] == ("False", "PoweringOn")
            for one in all_
        )
    )
    assert infra.metadata.name in {one.metadata.name for one in world.reservations.all}
    assert len(vcenter.tasks("PowerOnVM_Task")) == 2
    vcenter.release()
    await world.ready("slow", 1)


@pytest.mark.realapi
async def test_a_node_that_loses_its_gpu_is_not_ready(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": [""]})
    await world.site(vcenter)
    await world.pool("workers", T4)
    [machine] = await world.ready("workers", 1)
    name = machine.spec["infrastructureRef"]["name"]
    await world.nodes.until(lambda all_: _shows(all_, name) == "1")
    vcenter.detach(name)
    lost = await world.machines.until(
        lambda all_: [see.said(one, "Ready")[0] for one in all_] == ["False"]
    )
    assert "10de:1eb8" in see.said(lost[0], "Ready")[2]
    await world.nodes.until(lambda all_: _shows(all_, name) == "0")
    await world.deployments.until(
        lambda all_: [see.said(one, "Available")[0] for one in all_] == ["False"]
    )
    [vm] = world.vms.all
    assert see.said(vm, "PCIDevicesReady")[:2] == ("False", "PCIDevicesMissing")
    assert see.said(vm, "PCIDevicesDetached")[:2] == ("False", "NotFound")
    assert [seat["state"] for seat in vm.status["pciDevices"]] == ["Missing"]
    await world.delete(MACHINES, machine.metadata.name)  # as a MachineHealthCheck would
    await world.machines.until(
        lambda all_: all(one.metadata.name != machine.metadata.name for one in all_)
    )
    [replacement] = await world.ready("workers", 1)
    await world.nodes.until(
        lambda all_: _shows(all_, replacement.spec["infrastructureRef"]["name"]) == "1"
    )
    world.exact(vcenter)


def _shows(nodes: Any, name: str) -> str:
    found = [one for one in nodes if one.metadata.name == name]
    return str((found[0].status.get("allocatable") or {}).get(GPU, "")) if found else "no node"


async def test_vcenters_side_by_side_and_one_with_wrong_credentials(
    world: Any, start_vcenter: Callable[..., Simulator], see: Any
) -> None:
    good, other, wrong = start_vcenter(), start_vcenter(), start_vcenter(password="secret")
    for name, vcenter in (("good", good), ("other", other)):
        await world.vcenter(vcenter, name)
        await world.cluster(vcenter, name)
        await world.pool(name, VGPU, replicas=2, cluster=name)
    await world.vcenter(wrong, "wrong", password="guessed")
    await world.cluster(wrong, "wrong")
    await world.pool("wrong", VGPU, cluster="wrong")
    await world.lead()
    for name, vcenter in (("good", good), ("other", other)):
        await world.ready(name, 2)
        assert {vm.split("-")[0] for vm in see.made(vcenter)} == {name}
    refused = await world.vcenters.until(
        lambda all_: any(see.said(one, "Ready")[1] == "LoginRefused" for one in all_)
    )
    assert [see.said(one, "Ready")[0] for one in refused] == ["True", "True", "False"]
    assert "guessed" not in see.said(refused[2], "Ready")[2]
    assert see.of_pool(world.vms.all, "wrong") == []
    assert wrong.requests("Login") == 1
    await world.secret("vcenter-wrong", username="user", password="secret")
    await world.ready("wrong", 1)
    assert wrong.requests("Login") <= 4  # each connection has a session of its own
