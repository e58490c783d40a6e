"""Virtual VMs as a person writes them: refused in words, made right, and run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import CoreNode, PCIDevice
from laneway.kube.kubevirt import ANNOTATION_ADMITTED
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import VMS
from support.kubectl import Kubectl
from support.worlds import NAMESPACE, World

NIC, OTHER = "node1-000004001", "node2-000004001"
I350 = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
VGPUS = ("node1-000008004", "node1-000008005")
SMALL = "nvidia.com/NVIDIA_A2-8Q"


async def test_from_wrong_to_running(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    await world.add("node1", "a2")
    await world.add("node2", "plain")
    said = await admin.not_applied(make_vm("desk", hosts=[(NIC, "intel.com/NOTHING")]))
    assert "No device has the resource 'intel.com/NOTHING'" in said
    said = await admin.not_applied(make_vm("desk", "Always", hosts=[(NIC, I350)]))
    assert f"device pcidevice/{NIC} is not claimed" in said
    await world.claim(NIC)
    await world.claim(OTHER)
    said = await admin.not_applied(make_vm("desk", hosts=[(NIC, I350), (OTHER, I350)]))
    assert f"device pcidevice/{OTHER} is not on the same node in" in said
    assert "VirtualMachine.Spec.Template.Spec.Domain.Devices.HostDevices" in said
    said = await admin.not_applied(make_vm("desk", hosts=[(NIC, I350), (NIC, I350)]))
    assert f"'{NIC}' is listed more than once" in said
    two = [("a", I350), ("b", I350)]
    said = await admin.not_applied(make_vm("desk", "Always", hosts=two))
    assert f"{I350}: 2 requested on one node" in said

    # A dry run is judged and changed like any other write, and is none.
    right = make_vm("desk", "Always", hosts=[(NIC, I350)])
    shown = json.loads(await admin.apply(right, "--dry-run=server", "-o", "json"))
    assert ANNOTATION_ADMITTED in shown["metadata"]["annotations"]
    assert (await admin.get("vm"))["items"] == []

    await admin.apply(right)
    assert (await world.running("desk")).status.node_name == "node1"
    stored = await admin.get("vm", "desk")
    assert stored["metadata"]["annotations"][ANNOTATION_ADMITTED]
    devices = stored["spec"]["template"]["spec"]["domain"]["devices"]
    assert [one["name"] for one in devices["hostDevices"]] == [NIC]

    # Its stop, its start and its deletion are not judged.
    await world.stop_vm("desk")
    await world.run_vm("desk", on=True)
    await world.running("desk")
    await admin.ok("delete", "vm", "desk")
    await world.until(VMS, "desk", lambda one: one is None, NAMESPACE)


@pytest.mark.slow
async def test_a_vm_that_is_to_stay_off_is_warned_of_what_it_lacks(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    await world.add("node1", "a2")
    await world.vgpu("node1-000008004", "NVIDIA A2-8Q")
    two = [("one", SMALL), ("two", SMALL)]
    said = await admin.warned("create", "-f", "-", stdin=json.dumps(make_vm("desk", gpus=two)))
    assert said.startswith(f"Warning: The VM cannot start now: {SMALL}: 2 requested on one node")
    assert SMALL in await admin.not_applied(make_vm("other", "Always", gpus=two))


@pytest.mark.slow
async def test_claim_and_vm_in_one_file(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    await world.add("node1", "a2")
    items = [make_claim(NIC, "0000:04:00.1"), make_vm("desk", "Always", hosts=[(NIC, I350)])]
    both = {"apiVersion": "v1", "kind": "List", "items": items}
    done = await admin.run("apply", "-f", "-", stdin=json.dumps(both))
    assert done.status == 0, done
    await world.running("desk")


@pytest.mark.slow
async def test_another_users_device(
    world: World, admin: Kubectl, make_claim: Any, make_vm: Any
) -> None:
    alice, bob = admin.as_("alice"), admin.as_("bob")
    await world.add("node1", "a2")
    await alice.apply(make_claim(NIC, "0000:04:00.1"))
    await world.allocatable("node1", I350, 1)
    said = await bob.not_applied(make_vm("desk", hosts=[(NIC, I350)]))
    assert f"device pcidevice/{NIC} is claimed by another user, not by 'bob'" in said
    assert "alice" not in said
    await alice.apply(make_vm("desk", "Always", hosts=[(NIC, I350)]))
    await world.running("desk")


@pytest.mark.slow
async def test_vgpus_of_the_vendors_framework_become_host_devices_with_group_members_and_all(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    await world.add("node1", "a2-vfio")
    quarter = "nvidia.com/NVIDIA_A2-4Q"
    for number in range(4, 8):
        name = f"node1-00000800{number}"
        await admin.patch("vgpudevice", name, enabled=True, vGPUTypeName="NVIDIA A2-4Q")
    await world.allocatable("node1", quarter, 4)
    asked = [("one", quarter), ("two", quarter)]
    await admin.apply(make_vm("desk", "Always", gpus=asked))
    devices = (await admin.get("vm", "desk"))["spec"]["template"]["spec"]["domain"]["devices"]
    assert devices.get("gpus", []) == []
    found = [(one["name"], one["deviceName"]) for one in devices["hostDevices"]]
    assert found == asked
    await world.running("desk")

    # As the seed's documentation has it: all of a resource stay in one list, and it starts.
    vm = make_vm("shown", "Always", gpus=asked)
    gpus = vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    gpus[1]["virtualGPUOptions"] = {"display": {"ramFB": {"enabled": False}}}
    await admin.apply(vm)
    devices = (await admin.get("vm", "shown"))["spec"]["template"]["spec"]["domain"]["devices"]
    assert devices.get("hostDevices", []) == []
    assert devices["gpus"] == gpus
    await world.running("shown")


@pytest.mark.slow
async def test_a_file_with_vgpus_can_be_applied_again(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    """What was stored as host devices comes back as `gpus` whenever the file is applied."""
    await world.add("node1", "a2-vfio")
    for name in VGPUS:
        await admin.patch("vgpudevice", name, enabled=True, vGPUTypeName="NVIDIA A2-8Q")
    await world.allocatable("node1", SMALL, 2)
    raw = make_vm("desk", gpus=[(VGPUS[0], SMALL), ("any", SMALL)])
    del raw["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"]
    await admin.ok("apply", "-f", "-", stdin=json.dumps(raw))
    before = await admin.get("vm", "desk")
    await admin.ok("apply", "-f", "-", stdin=json.dumps(raw))
    await admin.ok("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(raw))
    after = await admin.get("vm", "desk")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    raw["metadata"]["labels"] = {"owner": "alice"}
    raw["spec"]["runStrategy"] = "Always"
    await admin.ok("apply", "-f", "-", stdin=json.dumps(raw))
    await world.running("desk")
    assert (await admin.get("vm", "desk"))["spec"]["template"] == before["spec"]["template"]


@pytest.mark.slow
async def test_one_display_for_a_vm(world: World, admin: Kubectl, make_vm: Any) -> None:
    await world.add("node1", "a2")
    for name in VGPUS:
        await world.vgpu(name, "NVIDIA A2-8Q")
    await world.allocatable("node1", SMALL, 2)
    raw = make_vm("desk", gpus=[("one", SMALL), ("two", SMALL)])
    gpus = raw["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]

    await admin.apply(raw)
    stored = (await admin.get("vm", "desk"))["spec"]["template"]["spec"]["domain"]["devices"][
        "gpus"
    ]
    first, second = (one["virtualGPUOptions"]["display"] for one in stored)
    assert first["enabled"]
    assert first["ramFB"]["enabled"]
    assert not second["enabled"]
    await admin.ok("delete", "vm", "desk")

    for one in gpus:
        one["virtualGPUOptions"] = {"display": {"enabled": True, "ramFB": {"enabled": True}}}
    said = await admin.not_applied(raw)
    assert "Only one display of a VM can have ramFB, and 'one', 'two' all have" in said


@pytest.mark.slow
async def test_a_vm_whose_device_is_gone_can_be_changed_and_deleted(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    node = await world.add("node1", "a2")
    await world.claim(NIC)
    await admin.apply(make_vm("desk", hosts=[(NIC, I350)]))
    await world.kill_agent(node)
    await world.stop_kubelet(node)
    await world.client.delete(served(CoreNode), "node1")
    await world.until(served(PCIDevice), NIC, lambda one: one is None)

    await admin.ok("label", "vm", "desk", "owner=alice")
    # What is new is judged all the same.
    both = [{"name": name, "deviceName": I350} for name in (NIC, "new")]
    said = await admin.not_patched("vm", "desk", **with_devices(both))
    assert f"No device has the resource '{I350}', which device 'new' of" in said
    await admin.patch("vm", "desk", **with_devices([]))
    await admin.ok("delete", "vm", "desk")


def with_devices(entries: list[dict[str, str]]) -> dict[str, Any]:
    return {"template": {"spec": {"domain": {"devices": {"hostDevices": entries}}}}}
