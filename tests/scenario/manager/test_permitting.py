"""KubeVirt permits what is claimed, as long as it is, and whatever others do to its lists."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.kube.errors import ConflictError
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import Key, served
from laneway.simcluster.kubevirt.install import install
from server_support.kube import REAL

pytestmark = pytest.mark.realapi

A2 = {
    "pciVendorSelector": "10de:25b6",
    "resourceName": "nvidia.com/GA107GL_A2",
    "externalResourceProvider": True,
}
VGPU = {
    "mdevNameSelector": "NVIDIA A2-2Q",
    "resourceName": "nvidia.com/NVIDIA_A2-2Q",
    "externalResourceProvider": True,
}
STICK = {
    "selectors": [{"vendor": "046d", "product": "c52b"}],
    "resourceName": "kubevirt.io/node1-046d-c52b-003011",
    "externalResourceProvider": True,
}
THEIRS = {"pciVendorSelector": "8086:1572", "resourceName": "intel.com/X710"}
NOTE = "devices.harvesterhci.io/laneway-permitted"


async def test_what_is_bound_is_permitted_and_goes_with_its_last_claim(
    world: Any, agent_says: Any
) -> None:
    await world.edit(pciHostDevices=[THEIRS])
    await world.manager()
    await world.claim("node1-000008000")
    await world.claim("node2-000008000")
    await world.vgpu("node1-000041000")
    await world.stick("node1-046d-c52b-003011")
    await world.until(
        lambda lists: (
            lists == {"pciHostDevices": [THEIRS, A2], "mediatedDevices": [VGPU], "usb": [STICK]}
        )
    )
    claims = served(PCIDeviceClaim)
    await world.client.delete(claims, "node1-000008000")
    await world.client.delete(served(USBDeviceClaim), "node1-046d-c52b-003011")
    await world.tell(VGPUDevice, "node1-000041000", vGPUStatus="")
    await world.until(lambda lists: lists == {"pciHostDevices": [THEIRS, A2]})
    await world.client.delete(claims, "node2-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [THEIRS]})
    assert NOTE not in (await world.kubevirt())["metadata"].get("annotations", {})


async def test_a_claim_that_is_not_bound_permits_nothing(world: Any, agent_says: Any) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000", status={"conditions": agent_says(Bound=False)})
    await world.leads(manager)
    await world.rest(manager)
    assert await world.lists() == {}


async def test_a_claim_that_goes_is_permitted_until_the_kubelet_knows(
    world: Any, agent_says: Any
) -> None:
    manager = await world.manager()
    both = {"conditions": agent_says(Bound=True, Advertised=True)}
    held = {"finalizers": ["wrangler.cattle.io/PCIDeviceClaimOnRemove"]}
    await world.claim("node1-000008000", status=both, metadata=held)
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.client.delete(served(PCIDeviceClaim), "node1-000008000")
    await world.cluster.until(
        PCIDeviceClaim, "node1-000008000", lambda one: one.metadata.deletion_timestamp
    )
    await world.rest(manager)
    assert await world.lists() == {"pciHostDevices": [A2]}
    only = agent_says(Bound=True, Advertised=False)
    await world.tell(PCIDeviceClaim, "node1-000008000", conditions=only)
    await world.until(lambda lists: not lists)


async def test_a_vgpu_that_is_to_go_is_permitted_until_the_kubelet_knows(
    world: Any, agent_says: Any
) -> None:
    await world.manager()
    reported = {"conditions": agent_says(Advertised=True)}
    await world.vgpu("node1-000041000", status=reported)
    await world.until(lambda lists: lists == {"mediatedDevices": [VGPU]})
    body = {"spec": {"vGPUTypeName": "NVIDIA A2-4Q"}}
    await world.client.patch(served(VGPUDevice), "node1-000041000", body)
    await world.tell(VGPUDevice, "node1-000041000", conditions=agent_says(Advertised=False))
    await world.until(lambda lists: not lists)


async def test_a_vgpu_of_the_vendors_framework_is_permitted_by_its_claim(world: Any) -> None:
    manager = await world.manager()
    await world.vgpu("node1-000041000", status={"framework": "vendor-vfio"})
    await world.claim("node1-000041000", resource="nvidia.com/NVIDIA_A2-2Q")
    await world.until(
        lambda lists: (
            lists == {"pciHostDevices": [A2 | {"resourceName": "nvidia.com/NVIDIA_A2-2Q"}]}
        )
    )
    await world.rest(manager)
    assert "mediatedDevices" not in await world.lists()


async def test_what_a_hand_removes_or_spoils_is_put_right(world: Any) -> None:
    await world.manager()
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.edit(pciHostDevices=None)
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.edit(pciHostDevices=[A2 | {"externalResourceProvider": False}, THEIRS])
    await world.until(lambda lists: lists == {"pciHostDevices": [A2, THEIRS]})
    await world.edit(pciHostDevices=[THEIRS, A2, A2])
    await world.until(lambda lists: lists == {"pciHostDevices": [THEIRS, A2]})


async def test_nothing_is_written_at_rest(world: Any, requests: list[tuple[str, str]]) -> None:
    await world.edit(pciHostDevices=[THEIRS])
    manager = await world.manager()
    await world.claim("node1-000008000")
    await world.vgpu("node1-000041000")
    await world.until(lambda lists: len(lists) == 2)
    await world.rest(manager)
    requests.clear()
    await world.rest(manager)
    second = await world.manager("two")
    await world.stop(manager)
    await world.leads(second)
    await world.rest(second)
    written = [path for method, path in requests if method != "GET" and "leases" not in path]
    if REAL:  # Before 1.25 a server drops rules of definitions, and a start tries again.
        written = [path for path in written if "customresourcedefinitions" not in path]
    assert written == []


async def test_an_entry_that_kubevirt_served_before_is_released(world: Any) -> None:
    own = {"pciVendorSelector": "10DE:25B6", "resourceName": "nvidia.com/GA107GL_A2"}
    await world.edit(pciHostDevices=[own])
    await world.manager()
    await world.claim("node1-000008000")
    external = own | {"externalResourceProvider": True}
    await world.until(lambda lists: lists == {"pciHostDevices": [external]})
    await world.client.delete(served(PCIDeviceClaim), "node1-000008000")
    internal = own | {"externalResourceProvider": False}
    await world.until(lambda lists: lists == {"pciHostDevices": [internal]})


async def test_every_kubevirt_permits_and_one_that_comes_late_too(world: Any) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.make(KUBEVIRTS, "other", "default", spec={"configuration": {}})
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]}, "other", "default")
    assert world.metric(manager, "laneway_kubevirts") == 2
    await world.client.delete(KUBEVIRTS, "other", "default")


async def test_two_kinds_of_device_under_one_name_are_both_permitted_and_reported(
    world: Any,
) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000")
    await world.claim("node2-000008000", "10de:25b7")
    twin = A2 | {"pciVendorSelector": "10de:25b7"}
    lists = await world.until(lambda lists: len(lists.get("pciHostDevices", ())) == 2)
    assert sorted(lists["pciHostDevices"], key=str) == [A2, twin]
    await world.rest(manager)
    reported = [message for reason, message in await world.events() if "Collision" in reason]
    assert len(reported) == 1
    assert "10de:25b6, 10de:25b7" in reported[0]
    assert world.metric(manager, "laneway_resource_collisions") == 1
    assert world.metric(manager, "laneway_permitted_entries", list="pciHostDevices") == 2


async def test_a_spoilt_memory_loses_no_entry(world: Any) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    body = {"metadata": {"annotations": {NOTE: "{broken"}}}
    await world.client.patch(KUBEVIRTS, "kubevirt", body, "harvester-system")
    await world.claim("node1-000009000", "10de:27b8", "nvidia.com/AD104GL_L4")
    await world.until(lambda lists: len(lists["pciHostDevices"]) == 2)
    await world.rest(manager)
    assert (await world.lists())["pciHostDevices"][0] == A2


async def test_people_and_managers_edit_at_once_and_nothing_is_lost(world: Any) -> None:
    """A person adds entries one by one, as kubectl edit does, while claims come and go."""
    await world.manager()
    choose = random.Random(6)
    theirs = [
        {"pciVendorSelector": f"8086:{number:04x}", "resourceName": f"intel.com/N{number}"}
        for number in range(20)
    ]

    async def person() -> None:
        for entry in theirs:
            while True:
                stored = await world.kubevirt()
                lists = stored["spec"]["configuration"].get("permittedHostDevices", {})
                there = list(lists.get("pciHostDevices", ()))
                there.insert(choose.randrange(len(there) + 1), entry)
                body = {
                    "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
                    "spec": {"configuration": {"permittedHostDevices": {"pciHostDevices": there}}},
                }
                with contextlib.suppress(ConflictError):
                    await world.client.patch(KUBEVIRTS, "kubevirt", body, "harvester-system")
                    break

    async def agents() -> None:
        for number in range(20):
            ids, name = f"10de:{number:04x}", f"nvidia.com/G{number}"
            await world.claim(f"node1-0000{number:02x}000", ids, name)
            if number % 2:
                await world.client.delete(served(PCIDeviceClaim), f"node1-0000{number:02x}000")

    await asyncio.gather(person(), agents())
    wanted = {f"nvidia.com/G{number}" for number in range(0, 20, 2)}

    def complete(lists: dict[str, Any]) -> bool:
        found = lists.get("pciHostDevices", ())
        ours = {one["resourceName"] for one in found if one.get("externalResourceProvider")}
        return ours == wanted and all(entry in found for entry in theirs)

    lists = await world.until(complete)
    assert len(lists["pciHostDevices"]) == 30


async def test_when_the_leader_goes_the_other_goes_on(world: Any) -> None:
    one = await world.manager("one")
    await world.leads(one)
    two = await world.manager("two")
    assert world.metric(one, "laneway_manager_leading") == 1
    assert world.metric(two, "laneway_manager_leading") == 0
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.stop(one)
    await world.client.delete(served(PCIDeviceClaim), "node1-000008000")
    await world.claim("node1-000009000", "10de:27b8", "nvidia.com/AD104GL_L4")
    lists = await world.until(
        lambda lists: (
            [one["pciVendorSelector"] for one in lists.get("pciHostDevices", ())] == ["10de:27b8"]
        )
    )
    assert len(lists) == 1
    assert two.leading
    assert world.metric(two, "laneway_manager_leading") == 1


async def test_a_cluster_without_kubevirt_has_nothing_to_permit_until_it_has_one(
    bare_world: Any,
) -> None:
    manager = await bare_world.manager()
    await bare_world.leads(manager, at_work=False)
    await bare_world.claim("node1-000008000")
    assert manager.waiting_for() == []
    assert bare_world.metric(manager, "laneway_kubevirts") == 0
    await install(bare_world.client)
    await bare_world.until(lambda lists: lists == {"pciHostDevices": [A2]})


async def test_odd_claims_permit_nothing_and_stop_nothing(world: Any) -> None:
    manager = await world.manager()
    await world.claim("node1-00000a000", status={"vendorId": "zzzz"})
    await world.claim("node1-00000b000", status={"resourceName": ""})
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    await world.rest(manager)
    assert await world.lists() == {"pciHostDevices": [A2]}


async def test_a_program_that_keeps_on_removing_entries_is_reported_and_not_fought(
    world: Any,
) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000")
    for _ in range(11):
        await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
        await world.edit(pciHostDevices=None)
    async with asyncio.timeout(60):
        while not [reason for reason, _ in await world.events() if "Contested" in reason]:
            await world.rest(manager)
    assert await world.lists() == {}
    await world.claim("node1-000009000", "10de:27b8", "nvidia.com/AD104GL_L4")
    lists = await world.until(lambda lists: len(lists.get("pciHostDevices", ())) == 2)
    assert A2 in lists["pciHostDevices"], "a new wish is carried out, and the rest with it"


async def test_nothing_is_taken_away_while_a_claim_cannot_be_read(world: Any) -> None:
    manager = await world.manager()
    await world.claim("node1-000008000")
    await world.until(lambda lists: lists == {"pciHostDevices": [A2]})
    unreadable = manager.caches.claims.undecodable
    unreadable[Key("", "node1-000009000")] = "what an older or newer client may have written"
    await world.client.delete(served(PCIDeviceClaim), "node1-000008000")
    await world.claim("node1-00000a000", "10de:27b8", "nvidia.com/AD104GL_L4")
    await world.until(lambda lists: len(lists["pciHostDevices"]) == 2)
    unreadable.clear()
    await world.rest(manager)
    assert A2 not in (await world.lists())["pciHostDevices"]
