"""Claims that are refused, as the user sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import CoreNode, PCIDevice, PCIDeviceClaim, USBDeviceClaim, find_condition
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import World

GPU, NIC, CONSOLE = "node1-000008000", "node1-000004001", "node1-000004000"
HUB, THERMAL = "node1-000000140", "node1-000000142"
STICK = "node1-0781-5583-001004"
I350 = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


def is_ready(claim: Any) -> bool:
    ready = find_condition(claim.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


@pytest.mark.slow
async def test_what_can_be_claimed_and_what_not(
    world: World, admin: Kubectl, alice: Kubectl, make_claim: Any
) -> None:
    await world.add("node1", "a2")
    said = await alice.not_applied(make_claim("node1-0000ff000", "0000:ff:00.0"))
    assert 'pcidevices.devices.harvesterhci.io "node1-0000ff000" not found' in said
    said = await alice.not_applied(make_claim(GPU, "0000:08:00.0"))
    assert f"pcidevice {GPU} has the vGPU devices" in said
    assert f"Disable sriovgpudevice {GPU} first" in said
    said = await alice.not_applied(make_claim(CONSOLE, "0000:04:00.0"))
    assert f"pcidevice {CONSOLE} is critical to its node" in said
    said = await alice.not_applied(make_claim(NIC, "0000:04:00.0"))
    assert f"pcidevice {NIC} is 0000:04:00.1 on node node1, not '0000:04:00.0'" in said
    assert (await admin.get("pcideviceclaims"))["items"] == []


@pytest.mark.slow
async def test_a_device_without_an_iommu_group(
    world: World, admin: Kubectl, make_claim: Any
) -> None:
    await world.client.create(
        served(CoreNode), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node9"}}
    )
    name, address = "node9-000017000", "0000:17:00.0"
    device = {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "PCIDevice"}
    await admin.apply({**device, "metadata": {"name": name}})
    status = {"status": {"address": address, "nodeName": "node9", "iommuGroup": ""}}
    patch = ("--subresource", "status", "--type", "merge", "-p", json.dumps(status))
    await admin.ok("patch", "pcidevice", name, *patch)
    said = await admin.not_applied(make_claim(name, address))
    assert f"pcidevice {name} has no iommuGroup available" in said


@pytest.mark.slow
async def test_a_claim_is_its_users(world: World, admin: Kubectl, make_claim: Any) -> None:
    alice, bob = admin.as_("alice"), admin.as_("bob")
    await world.add("node1", "a2")
    said = await bob.not_applied(make_claim(NIC, "0000:04:00.1", userName="alice"))
    assert f"spec.userName of pcideviceclaim {NIC} is 'alice', and you are 'bob'" in said
    reported = await bob.not_applied(make_claim(GPU, "0000:08:00.0", userName="alice"))
    first, second = reported.splitlines()
    assert f"spec.userName of pcideviceclaim {GPU} is 'alice'" in first
    assert second.startswith(f"pcidevice {GPU} has the vGPU devices")
    await alice.apply(make_claim(NIC, "0000:04:00.1"))
    assert (await admin.get("pcideviceclaim", NIC))["spec"]["userName"] == "alice"

    said = await bob.refused("delete", "pcideviceclaim", NIC)
    assert f"pcideviceclaim {NIC} belongs to user 'alice', so it cannot be deleted by you" in said
    said = await alice.not_patched("pcideviceclaim", NIC, userName="x")
    assert "userName is immutable" in said
    said = await bob.not_patched("pcideviceclaim", NIC, disableResourcePooling=True)
    assert f"pcideviceclaim {NIC} belongs to user 'alice', so it cannot be changed by you" in said

    await alice.ok("delete", "pcideviceclaim", NIC)
    # An administrator may do all that.
    await admin.apply(make_claim(NIC, "0000:04:00.1", userName="alice"))
    await admin.ok("delete", "pcideviceclaim", NIC)


@pytest.mark.slow
async def test_a_dry_run_shows_what_would_be_and_writes_nothing(
    world: World, alice: Kubectl, make_claim: Any
) -> None:
    await world.add("node1", "a2")
    dry = ("--dry-run=server", "-o", "json")
    shown = json.loads(await alice.apply(make_claim(NIC, "0000:04:00.1"), *dry))
    assert shown["spec"]["userName"] == "alice"
    said = await alice.not_applied(make_claim(GPU, "0000:08:00.0"), "--dry-run=server")
    assert "has the vGPU devices" in said
    assert (await alice.get("pcideviceclaims"))["items"] == []


@pytest.mark.slow
async def test_a_claim_of_a_device_in_use_or_named(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    await world.add("node1", "a2")
    await admin.apply(make_claim(NIC, "0000:04:00.1"))
    await world.until(served(PCIDeviceClaim), NIC, is_ready)
    used = f"pcideviceclaim {NIC} is already in use with VM default/desk"
    await admin.apply(make_vm("desk", hosts=[(NIC, I350)]))
    assert used in await admin.refused("delete", "pcideviceclaim", NIC)
    await world.run_vm("desk", on=True)
    await world.running("desk")
    assert used in await admin.refused("delete", "pcideviceclaim", NIC)
    await world.stop_vm("desk")
    assert used in await admin.refused("delete", "pcideviceclaim", NIC)
    await world.delete_vm("desk")
    await admin.ok("delete", "pcideviceclaim", NIC)


@pytest.mark.slow
async def test_usb_devices_and_their_controller(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    alice = admin.as_("alice")
    await world.add("node1", "a2")
    usb = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "USBDeviceClaim",
        "metadata": {"name": STICK},
    }
    await alice.apply({**usb, "spec": {}})
    assert (await admin.get("usbdeviceclaim", STICK))["spec"]["userName"] == "alice"
    found = await world.until(
        served(USBDeviceClaim), STICK, lambda one: bool(one.status.resource_name)
    )
    said = await alice.not_patched("usbdeviceclaim", STICK, userName="b")
    assert "userName is immutable" in said
    said = await admin.not_applied(make_claim(HUB, "0000:00:14.0"))
    assert STICK in said
    said = await admin.refused("delete", "usbdevice", STICK)
    assert f"usbdevice {STICK} is still in use" in said
    await alice.apply(make_vm("desk", hosts=[(STICK, found.status.resource_name)]))
    said = await alice.refused("delete", "usbdeviceclaim", STICK)
    assert f"usbdeviceclaim {STICK} is still in use by VM default/desk" in said
    await world.delete_vm("desk")
    await alice.ok("delete", "usbdeviceclaim", STICK)


@pytest.mark.slow
async def test_objects_of_a_node_that_is_gone_may_go(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    alice, bob = admin.as_("alice"), admin.as_("bob")
    node = await world.add("node1", "a2")
    await alice.apply(make_claim(NIC, "0000:04:00.1"))
    await world.until(served(PCIDeviceClaim), NIC, is_ready)
    await alice.apply(make_vm("desk", hosts=[(NIC, I350)]))
    assert "in use" in await admin.refused("delete", "pcideviceclaim", NIC)
    await world.kill_agent(node)
    await world.stop_kubelet(node)
    await world.client.patch(served(PCIDeviceClaim), NIC, {"metadata": {"finalizers": None}})
    await world.client.delete(served(CoreNode), "node1")
    # The first takes it away: this, or the manager's clean-up.
    done = await bob.run("delete", "pcideviceclaim", NIC)
    assert done.status == 0 or "NotFound" in done.err, done
    await world.until(served(PCIDevice), NIC, lambda one: one is None)
    try:
        await world.client.get(served(PCIDeviceClaim), NIC)
    except NotFoundError:
        return
    raise AssertionError(NIC)
