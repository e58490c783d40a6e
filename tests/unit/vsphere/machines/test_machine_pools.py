"""Which hosts a machine may be on by its resource pool, and that it stays in that pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import find_condition
from support.memory_vcenter import MemoryVCenter

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARD = {
    "id": "0000:3b:00.0",
    "vendorId": 0x10DE,
    "deviceId": 0x1EB8,
    "name": "Tesla T4",
    "fbGiB": 16,
    "mode": "passthrough",
}
MakePool = Callable[[MemoryVCenter, str, str], str]


def words_of(vm: Any) -> str:
    found = find_condition(vm.status.conditions, "PCIDevicesReady")
    return found.message if found is not None else ""


def pool_of(vcenter: MemoryVCenter, name: str) -> str:
    """The pool that the VM of a machine is in."""
    [vm] = [one for one in vcenter.all.values() if one.name == name]
    return vm.pool


async def test_the_pool_of_capvs_quick_start_is_that_of_the_only_cluster(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [CARD]}, standalone=0)
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool="*/Resources")
    await works.machine("none", resourcePool="/DC0/host/*/Resources")
    await works.machine("whole", resourcePool="/DC0/host/*")
    await works.lead()
    for name in ("one", "none", "whole"):
        await works.until_ready(name)


async def test_an_ambiguous_pool_is_reported_and_nothing_is_reserved(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [CARD], "DC0_C1_H0": [CARD]}, clusters=2, standalone=0)
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool="*/Resources")
    await works.machine("two", T4, resourcePool="DC0_C1/Resources")
    await works.lead()
    vm = await works.until_says("one", "PCIDevicesReady", "ResourcePoolUnresolved")
    there = "/DC0/host/DC0_C0/Resources, /DC0/host/DC0_C1/Resources"
    assert f"{there}; give the whole path" in words_of(vm)
    await works.until_ready("two")
    assert "one" not in vcenter.vms()


async def test_a_pool_given_as_its_cluster_is_all_of_that(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [CARD], "DC0_C1_H0": [CARD]}, clusters=2, drs=False)
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool="/DC0/host/DC0_C1")
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C1_H0"


@pytest.mark.parametrize("cluster", ["DC0_C0", "DC0_C1"])
async def test_a_machine_gets_its_devices_in_the_cluster_of_its_pool(
    works: Any, start_vcenter: Callable[..., MemoryVCenter], make_pool: MakePool, cluster: str
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [CARD], "DC0_C1_H0": [CARD]}, clusters=2, drs=False)
    pool = make_pool(vcenter, cluster, "team")
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool="team")
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == f"{cluster}_H0"
    assert pool_of(vcenter, "one") == pool
    await works.machine("two", T4, resourcePool="team")
    vm = await works.until_says("two", "PCIDevicesReady", "NoRoom")
    assert f"cluster {cluster}" in words_of(vm)


async def test_a_machine_that_another_host_has_to_start_stays_in_its_pool(
    works: Any, start_vcenter: Callable[..., MemoryVCenter], make_pool: MakePool
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [CARD], "DC0_C0_H1": [CARD]}, drs=False)
    vcenter.fail("PowerOnVM_Task", "InsufficientHostCapacityFault", "Not here.")
    pool = make_pool(vcenter, "DC0_C0", "team")
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool="DC0_C0/Resources/team")
    await works.lead()
    await works.until_ready("one")
    assert len(vcenter.tasks("RelocateVM_Task")) == 1
    assert pool_of(vcenter, "one") == pool
