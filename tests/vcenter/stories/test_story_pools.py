"""Pools of machines that share too few GPUs: who gets which, who says why not, and what comes then.

Cases of what users of CAPV request (docs/explanation/vsphere.md): equal cards distinguished by
labels (CAPV#2470), no race for the last GPU, sharing of vGPUs (CAPV#968), roll-outs without a spare
GPU (cluster-api#3417).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clusterapi import DEPLOYMENTS, MACHINES
from support.vcenter import Simulator

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
GPU = "nvidia.com/gpu"


@pytest.mark.realapi
async def test_eight_machines_for_four_labelled_cards(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["gold", "blue"], "DC0_C0_H1": ["blue", "gold"]})
    await world.site(vcenter)
    for label in ("gold", "blue"):
        await world.pool(label, T4 | {"customLabel": label}, replicas=4)
    first: set[str] = set()
    for label in ("gold", "blue"):
        first |= {one.metadata.name for one in await world.ready(label, 2)}
        for one in await world.refused(label, 2):
            words = see.said(one, "PCIDevicesReady")[2]
            assert f"10de:1eb8 labelled {label}: 1 requested" in words
            assert "0 of 2 free" in words
            assert one.metadata.name not in see.made(vcenter)
            assert see.said(one, "Ready")[0] == "False"
    _each_has_its_own(world, vcenter, {"gold", "blue"}, see)
    for name in first:
        await world.delete(MACHINES, name)
    await world.machines.until(lambda all_: not first & {one.metadata.name for one in all_})
    for label in ("gold", "blue"):
        await world.ready(label, 2)
        await world.refused(label, 2)
    _each_has_its_own(world, vcenter, {"gold", "blue"}, see)


def _each_has_its_own(world: Any, vcenter: Simulator, labels: set[str], see: Any) -> None:
    """Every card is held by one machine, of the pool that is called as its label."""
    gpus = {(gpu["host"], gpu["id"]): gpu for gpu in vcenter.state()["gpus"]}
    users = vcenter.users()
    assert len(users) == 4
    assert {len(names) for names in users.values()} == {1}
    for at, [name] in ((at, list(names)) for at, names in users.items()):
        assert name.startswith(gpus[at]["label"])
    assert {label for label in labels if any(n.startswith(label) for [n] in users.values())} == (
        labels
    )
    assert sorted(see.made(vcenter)) == sorted(name for names in users.values() for name in names)
    world.exact(vcenter)


@pytest.mark.realapi
async def test_two_templates_race_for_the_last_vgpu(
    world: Any, vcenter: Simulator, see: Any
) -> None:
    await world.site(vcenter)
    vgpu = {"vGPUProfile": "grid_t4-16q"}
    await world.pool("left", vgpu)
    await world.pool("right", vgpu)
    ready = await world.machines.until(lambda all_: any(see.is_true(o, "Ready") for o in all_))
    [winner] = [one for one in ready if see.is_true(one, "Ready")]
    loser = "right" if winner.metadata.labels["pool"] == "left" else "left"
    [waiting] = await world.refused(loser, 1)
    words = see.said(waiting, "PCIDevicesReady")[2]
    assert "grid_t4-16q: 1 requested, 0 of 1 free" in words
    assert winner.spec["infrastructureRef"]["name"] in words
    assert list(see.made(vcenter)) == [winner.spec["infrastructureRef"]["name"]]
    await world.scale(winner.metadata.labels["pool"], 0)
    await world.ready(loser, 1)
    world.exact(vcenter)


async def test_vgpus_of_a_board_have_one_size(world: Any, vcenter: Simulator, see: Any) -> None:
    await world.site(vcenter)
    await world.pool("half", {"vGPUProfile": "grid_t4-8q"})
    await world.ready("half", 1)
    await world.pool("quarter", {"vGPUProfile": "grid_t4-4c"})
    [waiting] = await world.refused("quarter", 1)
    words = see.said(waiting, "PCIDevicesReady")[2]
    assert "grid_t4-4c: 1 requested, 0 of 4 free" in words
    assert (
        "All vGPUs of a GPU have the same size: 0000:3b:00.0 of DC0_C0_H1 has vGPUs of 8 GiB."
        in words
    )
    await world.scale("half", 2)
    await world.ready("half", 2)  # there is room for another one of that size
    await world.scale("half", 0)
    await world.ready("quarter", 1)
    [users] = vcenter.users().values()
    assert len(users) == 1


@pytest.mark.realapi
async def test_a_pool_is_scaled_up_and_down(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""], "DC0_C0_H1": [""]})
    await world.site(vcenter)
    await world.pool("workers", T4)
    await world.ready("workers", 1)
    await world.scale("workers", 4)
    await world.ready("workers", 3)
    [waiting] = await world.refused("workers", 1)
    assert "0 of 3 free" in see.said(waiting, "PCIDevicesReady")[2]
    nodes = await world.nodes.until(
        lambda all_: sum(gpus(one) == "1" for one in all_) == 3  # the resource follows the devices
    )
    assert {one.metadata.name for one in nodes} >= see.made(vcenter).keys()
    await world.scale("workers", 1)
    await world.settled("workers", 1)
    await world.vms.until(lambda all_: len(all_) == 1)
    await world.reservations.until(lambda all_: len(all_) == 1)
    assert len(see.made(vcenter)) == len(vcenter.users()) == 1
    await world.scale("workers", 0)
    await world.nothing_left(vcenter)


def gpus(node: Any) -> str:
    return str((node.status.get("allocatable") or {}).get(GPU, ""))


async def test_a_roll_out_without_a_spare_gpu(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    """With `maxSurge` 1 it stands still and says why; with 0 it goes through."""
    vcenter = t4s({"DC0_C0_H0": [""], "DC0_C0_H1": [""]})
    await world.site(vcenter)
    await world.pool("workers", T4, replicas=2)
    before = {one.metadata.name for one in await world.ready("workers", 2)}
    await world.template("newer", T4, numCPUs=4)
    await world.roll_out("workers", "newer")
    [waiting] = await world.refused("workers", 1)
    words = see.said(waiting, "PCIDevicesReady")[2]
    assert "10de:1eb8: 1 requested, 0 of 2 free" in words
    assert {one.metadata.name for one in await world.ready("workers", 2)} == before
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    await world.patch(DEPLOYMENTS, "workers", {"rollout": {"strategy": {"rollingUpdate": rolling}}})
    await world.machines.until(
        lambda all_: (
            len(all_) == 2
            and not before & {one.metadata.name for one in all_}
            and all(see.is_true(one, "Ready") for one in all_)
        )
    )
    await world.reservations.until(lambda all_: len(all_) == 2)
    assert len(see.made(vcenter)) == len(vcenter.users()) == 2
    world.exact(vcenter)
