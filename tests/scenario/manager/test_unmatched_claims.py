"""A claim that no agent can answer says so all the same."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import CoreNode, PCIDeviceClaim, USBDeviceClaim, find_condition
from laneway.controllers.cluster import unmatched_claims
from laneway.kube.resource import served

pytestmark = pytest.mark.realapi


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmatched_claims, "PATIENCE_SECONDS", 0.01)


async def test_a_claim_of_a_node_that_is_not_says_so(world: Any) -> None:
    spec = {"address": "0000:08:00.0", "nodeName": "nowhere", "userName": "admin"}
    manager = await world.manager()
    await world.leads(manager)
    await world.make(PCIDeviceClaim, "nowhere-000008000", spec=spec)
    claim = await world.cluster.answer("nowhere-000008000", "NodeNotFound", PCIDeviceClaim)
    assert "nowhere" in world.cluster.message(claim)


async def test_a_claim_that_names_no_usb_device_says_so(world: Any) -> None:
    await world.manager()
    await world.make(USBDeviceClaim, "node1-046d-c52b-003099", spec={"userName": "admin"})
    await world.cluster.answer("node1-046d-c52b-003099", "DeviceNotFound", USBDeviceClaim)


async def test_the_claim_of_a_node_whose_agent_is_silent_is_left_to_it(world: Any) -> None:
    spec = {"address": "0000:08:00.0", "nodeName": "node1", "userName": "admin"}
    await world.make(PCIDeviceClaim, "node1-000008000", spec=spec)
    other = {**spec, "nodeName": "nowhere"}
    await world.make(PCIDeviceClaim, "nowhere-000008000", spec=other)
    assert await world.cluster.get(CoreNode, "node1")
    await world.manager()
    await world.cluster.answer("nowhere-000008000", "NodeNotFound", PCIDeviceClaim)
    claim = await world.cluster.get(PCIDeviceClaim, "node1-000008000")
    assert not claim.status.conditions


def _bound(claim: Any) -> bool:
    found = find_condition(claim.status.conditions, "Bound") if claim is not None else None
    return found is not None and found.status == "True"


@pytest.mark.slow
async def test_what_the_manager_said_gives_way_to_an_agent_that_comes_later(
    world: Any, simulated: Any
) -> None:
    """Its node was registered late, or its device plugged in after the claim was made."""
    card, stick = "node3-000004001", "node3-0781-5583-001004"
    spec = {"address": "0000:04:00.1", "nodeName": "node3", "userName": "admin"}
    await world.make(PCIDeviceClaim, card, spec=spec)
    await world.make(USBDeviceClaim, stick, spec={"userName": "admin"})
    await world.manager()
    cluster = world.cluster
    await cluster.answer(card, "NodeNotFound", PCIDeviceClaim)
    await cluster.answer(stick, "DeviceNotFound", USBDeviceClaim)
    await world.make(CoreNode, "node3")
    try:
        await cluster.start_agent("node3", simulated("a2", "node3"))
        for kind, name in ((PCIDeviceClaim, card), (USBDeviceClaim, stick)):
            claim = await cluster.until(kind, name, _bound)
            assert cluster.reason(claim) not in {"NodeNotFound", "DeviceNotFound"}
    finally:
        await world.client.delete(served(CoreNode), "node3")


async def test_a_claim_that_waits_for_the_agent_of_a_node_goes_with_it(world: Any) -> None:
    name = "node2-000008000"
    spec = {"address": "0000:08:00.0", "nodeName": "node2", "userName": "admin"}
    await world.make(PCIDeviceClaim, name, spec=spec)
    manager = await world.manager()
    await world.leads(manager)
    await world.rest(manager)
    assert not (await world.cluster.get(PCIDeviceClaim, name)).status.conditions
    await world.client.delete(served(CoreNode), "node2")
    await world.cluster.until(PCIDeviceClaim, name, lambda claim: claim is None)


async def test_a_claim_made_again_has_its_time_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"address": "0000:08:00.0", "nodeName": "nowhere", "userName": "admin"}
    name = "nowhere-000008000"
    await world.make(PCIDeviceClaim, name, spec=spec)
    manager = await world.manager()
    await world.cluster.answer(name, "NodeNotFound", PCIDeviceClaim)
    monkeypatch.setattr(unmatched_claims, "PATIENCE_SECONDS", 3600.0)
    await world.client.delete(served(PCIDeviceClaim), name)
    await world.make(PCIDeviceClaim, name, spec=spec)
    for _ in range(2):  # however often it is looked at meanwhile
        await world.rest(manager)
    assert not (await world.cluster.get(PCIDeviceClaim, name)).status.conditions
