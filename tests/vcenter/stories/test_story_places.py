"""Where machines with GPUs are: failure domains, clusters without DRS, hosts in maintenance.

Cases of the tables in docs/explanation/vsphere.md: a failure domain must have the devices (the
proposal), a host is chosen where nothing else does (CAPV#941, #586, #873), and machines
with passthrough devices are never moved (vm-operator#353).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.clusterapi import MACHINES
from support.vcenter import Simulator

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}


async def test_a_failure_domain_without_gpus_says_where_they_are(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C1_H0": [""]}, clusters=2)
    await world.site(vcenter)
    await world.zone(vcenter, "plain", computeCluster="DC0_C0")
    await world.zone(vcenter, "equipped", computeCluster="DC0_C1")
    await world.pool("here", T4, zone="plain", resourcePool=None)
    await world.pool("there", T4, zone="equipped", resourcePool=None)
    [there] = await world.ready("there", 1)
    name = there.spec["infrastructureRef"]["name"]
    assert see.made(vcenter)[name]["host"] == "DC0_C1_H0"
    assert there.status["failureDomain"] == "equipped"
    [refused] = await world.refused("here", 1, "DeviceNotOffered")
    words = see.said(refused, "PCIDevicesReady")[2]
    assert "No host in cluster DC0_C0 of datacenter DC0 has 10de:1eb8" in words
    assert "cluster DC0_C1 of datacenter DC0 has it" in words
    assert list(see.made(vcenter)) == [name]
    reported = await world.machines.until(
        lambda all_: any("DC0_C1" in see.said(o, "InfrastructureReady")[2] for o in all_)
    )
    assert len(reported) == 2


async def test_without_drs_each_machine_is_made_where_its_device_is(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H1": [""], "DC0_C0_H2": [""]}, drs=False)
    await world.site(vcenter)
    await world.pool("workers", T4, replicas=3)
    await world.ready("workers", 2)
    await world.refused("workers", 1)
    assert {vm["host"] for vm in see.made(vcenter).values()} == {"DC0_C0_H1", "DC0_C0_H2"}
    assert vcenter.tasks("RelocateVM_Task") == []
    assert not [task for task in vcenter.tasks() if task.get("fault")]


async def test_a_machine_with_passthrough_stays_on_its_host_in_maintenance(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    """It cannot be moved by vMotion: it stays, is reported, and its host takes no other."""
    vcenter = t4s({"DC0_C0_H0": ["", ""]})
    await world.site(vcenter)
    await world.pool("workers", T4)
    [machine] = await world.ready("workers", 1)
    name = machine.spec["infrastructureRef"]["name"]
    vcenter.change_host("DC0_C0_H0", maintenance=True)
    hosts = await world.hosts.until(lambda all_: any(one.status.get("maintenance") for one in all_))
    [host] = [one for one in hosts if one.status.get("maintenance")]
    assert [device.get("vm", "") for device in host.status["devices"]].count("") == 1
    await world.scale("workers", 2)
    [waiting] = await world.refused("workers", 1)
    assert "DC0_C0_H0 (in maintenance mode)" in see.said(waiting, "PCIDevicesReady")[2]
    assert [one.metadata.name for one in await world.ready("workers", 1)] == [machine.metadata.name]
    [kept] = [one for one in world.reservations.all if one.metadata.name == name]
    assert [seat["state"] for seat in kept.status["devices"]] == ["InUse"]
    assert see.made(vcenter)[name]["on"]
    assert vcenter.requests("RelocateVM_Task") == vcenter.requests("MigrateVM_Task") == 0
    vcenter.change_host("DC0_C0_H0", maintenance=False)
    await world.ready("workers", 2)


async def test_a_machine_of_a_host_in_maintenance_is_made_again_elsewhere(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": [""], "DC0_C0_H1": [""]})
    vcenter.change_host("DC0_C0_H1", maintenance=True)
    await world.site(vcenter)
    await world.pool("workers", T4)
    [machine] = await world.ready("workers", 1)
    vcenter.change_host("DC0_C0_H0", maintenance=True)
    vcenter.change_host("DC0_C0_H1", maintenance=False)
    await world.delete(MACHINES, machine.metadata.name)
    await world.machines.until(
        lambda all_: (
            [one.metadata.name for one in all_] != [machine.metadata.name]
            and [see.is_true(one, "Ready") for one in all_] == [True]
        )
    )
    assert [vm["host"] for vm in see.made(vcenter).values()] == ["DC0_C0_H1"]
    await world.reservations.until(lambda all_: len(all_) == 1)
    world.exact(vcenter)
