"""PCIDeviceClaims: who may have which device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.admission.request import Access, Operation, Request, Requester
from laneway.admission.rules.claims import RULES, mutate
from laneway.admission.rules.ownership import right
from laneway.api import (
    CoreNode,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    USBDevice,
    USBDeviceClaim,
)
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, Facts, Phase

GPU = "0000:08:00.0"
NAME = "node1-000008000"
MEMBER = "0000:08:00.1"
MEMBER_NAME = "node1-000008001"
ADMINISTER = (right("pcideviceclaims", NAME),)

Reasons = Callable[[Any], list[str]]


def claim_without_user() -> PCIDeviceClaim:
    return PCIDeviceClaim(spec=PCIDeviceClaimSpec(address=GPU, node_name="node1"))


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def said(kind: str, message: str) -> list[dict[str, str]]:
    return [{"type": "Claimable", "status": "False", "reason": kind, "message": message}]


# ------------------------------------------------------------------------------------- creation


def test_a_free_device_is_claimed(scene: Any) -> None:
    scene.pci(GPU)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert verdict.allowed
    assert verdict.warnings == ()


def test_a_device_that_its_agent_calls_free_is_claimed(scene: Any) -> None:
    free = {"type": "Claimable", "status": "True", "reason": "Free", "message": "Nothing needs it."}
    scene.pci(GPU, conditions=[free])
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU)).allowed


def test_a_device_without_a_decision_is_claimed(scene: Any) -> None:
    scene.pci(GPU, claimable=None)
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU)).allowed


def test_a_device_that_there_is_not(scene: Any, reasons: Reasons) -> None:
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["DeviceNotFound"]
    assert f'pcidevices.devices.harvesterhci.io "{NAME}" not found' in words(verdict)


@pytest.mark.parametrize(
    "spec", [{"address": "0000:09:00.0"}, {"nodeName": "node2"}, {"address": None}]
)
def test_a_claim_that_speaks_of_another_device_than_its_name(
    scene: Any, reasons: Reasons, spec: dict[str, Any]
) -> None:
    scene.pci(GPU)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU, spec=spec))
    assert reasons(verdict) == ["NameMismatch"]
    assert f"pcidevice {NAME} is {GPU} on node node1" in words(verdict)


def test_a_device_without_an_iommu_group(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, iommuGroup="", claimable=False, conditions=said("NoIommuGroup", "it has none"))
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["NoIommuGroup"]
    assert f"pcidevice {NAME} has no iommuGroup available" in words(verdict)


def test_a_device_that_the_node_cannot_do_without(scene: Any, reasons: Reasons) -> None:
    why = "critical to the node: holds swap space"
    scene.pci(
        GPU,
        claimable=False,
        critical=["holds swap space"],
        conditions=said("CriticalToNode", why),
    )
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["CriticalToNode"]
    assert "holds swap space" in words(verdict)


def test_a_device_that_only_its_condition_calls_critical(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, claimable=False, conditions=said("CriticalToNode", "holds swap space"))
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["CriticalToNode"]
    assert "holds swap space" in words(verdict)


@pytest.mark.parametrize(
    "reason",
    [
        "GroupMemberCritical",
        "GroupMemberInUse",
        # As an agent of the release before wrote them.
        "GroupMateCritical",
        "GroupMateInUse",
    ],
)
def test_a_device_whose_group_the_node_uses(scene: Any, reasons: Reasons, reason: str) -> None:
    why = f"it shares IOMMU group 10 with {MEMBER}, which is in use: a vGPU"
    scene.pci(GPU, claimable=False, conditions=said(reason, why))
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["GroupMemberInUse"]
    assert why in words(verdict)


def test_a_group_group_member_that_is_critical_counts_before_the_device_itself_says_so(
    scene: Any, reasons: Reasons
) -> None:
    scene.pci(GPU)
    scene.pci(MEMBER, critical=["the default route"], claimable=False)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["GroupMemberInUse"]
    assert MEMBER in words(verdict)


def test_a_critical_device_of_another_group_does_not_matter(scene: Any) -> None:
    scene.pci(GPU)
    scene.pci(MEMBER, critical=["the default route"], claimable=False, iommuGroup="11")
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU)).allowed


def test_a_device_that_cannot_be_claimed_for_another_reason(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, claimable=False, conditions=said("Bridge", "it is a bridge"))
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["NotClaimable"]
    assert "it is a bridge" in words(verdict)


@pytest.mark.parametrize("reason", ["VirtualFunctionsEnabled", "NoIommuGroup"])
def test_a_reason_that_nothing_else_here_tells(scene: Any, reasons: Reasons, reason: str) -> None:
    """A network card with virtual functions; a group that is shown and denied."""
    scene.pci(GPU, claimable=False, conditions=said(reason, "why not"))
    assert reasons(scene.judge(RULES, "CREATE", new=scene.claim(GPU))) == ["NotClaimable"]


def test_a_gpu_with_vgpus_and_something_else(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, claimable=False, conditions=said("Bridge", "it is a bridge"))
    scene.pci("0000:08:00.4", labels={"harvesterhci.io/parentSRIOVGPUDevice": NAME})
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["GpuShared", "NotClaimable"]


def test_a_device_that_is_not_claimable_and_says_not_why(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, claimable=False)
    assert reasons(scene.judge(RULES, "CREATE", new=scene.claim(GPU))) == ["NotClaimable"]


def usb(scene: Any, controller: str, description: str = "Logitech Receiver") -> None:
    name = "node1-046d-c52b-003011"
    status = {"nodeName": "node1", "pciAddress": controller, "description": description}
    scene.put("usb_devices", USBDevice, {"metadata": {"name": name}, "status": status})
    scene.put("usb_claims", USBDeviceClaim, {"metadata": {"name": name}, "status": status})


def test_a_usb_controller_on_which_devices_are_claimed(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, classId="0c03")
    usb(scene, GPU)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["UsbDevicesClaimed"]
    assert "node1-046d-c52b-003011 (Logitech Receiver)" in words(verdict)
    assert NAME in words(verdict)


def test_a_group_with_such_a_controller(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU)
    scene.pci(MEMBER, classId="0c03")
    usb(scene, MEMBER)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["UsbDevicesClaimed"]
    assert "on the controller node1-000008001 are claimed" in words(verdict)
    assert words(verdict).endswith(": kubectl delete usbdeviceclaim node1-046d-c52b-003011")


def test_claimed_usb_devices_elsewhere_do_not_matter(scene: Any) -> None:
    scene.pci(GPU, classId="0c03")
    usb(scene, "0000:00:14.0")
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU)).allowed


def test_a_gpu_with_vgpus(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU, claimable=False, conditions=said("VirtualFunctionsEnabled", "2 functions"))
    label = {"harvesterhci.io/parentSRIOVGPUDevice": NAME}
    scene.pci("0000:08:00.4", labels=label, iommuGroup="14")
    scene.pci("0000:08:00.5", labels=label, iommuGroup="15")
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["GpuShared"]
    assert "node1-000008004, node1-000008005" in words(verdict)
    assert f"sriovgpudevice {NAME}" in words(verdict)


@pytest.mark.parametrize(
    ("label", "class_id", "fine"),
    [
        ("true", "0302", False),
        ("true", "0300", False),
        ("true", "0200", True),
        ("false", "0302", True),
        ("", "0302", True),
    ],
)
def test_gpus_of_a_node_whose_gpus_are_for_containers(
    scene: Any, reasons: Reasons, label: str, class_id: str, fine: bool
) -> None:
    labels = {"harvesterhci.io/gpu-baremetal-workloads": label}
    scene.put("nodes", CoreNode, {"metadata": {"name": "node1", "labels": labels}})
    scene.pci(GPU, classId=class_id)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ([] if fine else ["GpusForContainers"])


def test_everything_that_speaks_against_a_claim_is_reported_at_once(
    scene: Any, reasons: Reasons
) -> None:
    scene.pci(GPU, iommuGroup="", critical=["swap"])
    usb(scene, GPU)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU, "bob"))
    assert reasons(verdict) == [
        "UserNameForbidden",
        "NoIommuGroup",
        "CriticalToNode",
        "UsbDevicesClaimed",
    ]


def test_a_claim_that_leaves_the_driver_alone_takes_nothing_from_the_node(scene: Any) -> None:
    scene.pci(GPU, claimable=False, conditions=said("VgpuFunction", "a virtual function"))
    skip = {"annotations": {"pcidevices.harvesterhci.io/skip-vfio-binding": ""}}
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU, metadata=skip))
    assert verdict.allowed
    assert "skip-vfio-binding" in verdict.warnings[0]


# ----------------------------------------------------------------------------------- whose it is


def test_a_claim_in_anothers_name(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU)
    verdict = scene.judge(RULES, "CREATE", new=scene.claim(GPU, "bob"))
    assert reasons(verdict) == ["UserNameForbidden"]
    assert "'bob'" in words(verdict)
    assert "'alice'" in words(verdict)


def test_a_claim_without_a_user_name(scene: Any, reasons: Reasons) -> None:
    scene.pci(GPU)
    assert reasons(scene.judge(RULES, "CREATE", new=scene.claim(GPU, ""))) == ["UserNameForbidden"]


def test_who_may_administer_a_claim_makes_it_for_anybody(scene: Any) -> None:
    scene.pci(GPU)
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU, "bob"), rights=ADMINISTER).allowed


def test_a_right_on_another_claim_does_not_help(scene: Any) -> None:
    scene.pci(GPU)
    other = (Access("administer", "pcideviceclaims", MEMBER_NAME),)
    assert not scene.judge(RULES, "CREATE", new=scene.claim(GPU, "bob"), rights=other).allowed


def test_no_right_is_needed_for_ones_own_claim(scene: Any, agent: str) -> None:
    for user in ("alice", agent):
        claim = scene.claim(GPU, "alice")
        for operation in Operation:
            request = Request(operation, NAME, "", Requester(user), old=claim, new=claim)
            assert list(RULES.asks(request, scene.world)) == []


@pytest.mark.parametrize("done", ["changed", "deleted"])
def test_a_claim_of_another_user(scene: Any, reasons: Reasons, done: str) -> None:
    claim = scene.claim(GPU, "bob")
    changed = scene.claim(GPU, "bob", metadata={"labels": {"mine": "now"}})
    write = {"changed": ("UPDATE", claim, changed), "deleted": ("DELETE", claim, None)}[done]
    verdict = scene.judge(RULES, write[0], old=write[1], new=write[2])
    assert reasons(verdict) == ["NotClaimOwner"]
    assert f"pcideviceclaim {NAME} belongs to user 'bob'" in words(verdict)
    assert done in words(verdict)
    assert scene.judge(RULES, write[0], old=write[1], new=write[2], rights=ADMINISTER).allowed


def test_a_claim_that_is_written_unchanged_is_allowed(scene: Any) -> None:
    claim = scene.claim(GPU, "bob")
    assert scene.judge(RULES, "UPDATE", old=claim, new=claim).allowed


def test_a_claim_that_names_no_user_is_the_requesters(scene: Any) -> None:
    def asked(user: str, **spec: Any) -> Any:
        claim = scene.claim(GPU, user, spec=spec)
        request = Request(Operation.CREATE, NAME, "", Requester("alice"), new=claim)
        return mutate(request)

    assert asked("") == ({"op": "add", "path": "/spec/userName", "value": "alice"},)
    assert asked("bob") == ()
    assert asked("", address=None, nodeName=None) == (
        {"op": "add", "path": "/spec", "value": {"userName": "alice"}},
    )


def test_an_anonymous_user_makes_a_claim_without_a_user() -> None:
    claim = claim_without_user()
    assert mutate(Request(Operation.CREATE, NAME, "", Requester(""), new=claim)) == ()
    assert mutate(Request(Operation.CREATE, NAME, "", Requester("alice"))) == ()


def test_an_update_changes_no_owner_of_a_claim(scene: Any) -> None:
    claim = scene.claim(GPU, "")
    update = Request(Operation.UPDATE, NAME, "", Requester("alice"), old=claim, new=claim)
    assert mutate(update) == ()
    taken = scene.claim(GPU, "alice")
    assert not scene.judge(RULES, "UPDATE", old=claim, new=taken).allowed
    assert scene.judge(RULES, "UPDATE", old=claim, new=taken, rights=ADMINISTER).allowed


# --------------------------------------------------------------------------------------- changes


@pytest.mark.parametrize(
    ("field", "called"),
    [("address", "address"), ("nodeName", "nodeName"), ("userName", "username")],
)
@pytest.mark.parametrize("rights", [(), ADMINISTER])
def test_what_a_claim_is_about_is_immutable(
    scene: Any, reasons: Reasons, field: str, called: str, rights: tuple[Access, ...]
) -> None:
    value = "0000:09:00.0" if field == "address" else "other"
    changed = scene.claim(GPU, spec={field: value})
    verdict = scene.judge(RULES, "UPDATE", old=scene.claim(GPU), new=changed, rights=rights)
    assert reasons(verdict) == ["FieldImmutable"]
    assert f"pcideviceclaim {NAME} {called} is immutable" in words(verdict)
    assert verdict.refusals[0].field == f"spec.{field}"


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"disableResourcePooling": True}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["wrangler.cattle.io/PCIDeviceClaimOnRemove"]}},
    ],
)
def test_the_rest_is_its_users_to_change(scene: Any, changes: Any) -> None:
    old, new = scene.claim(GPU), scene.claim(GPU, **changes)
    assert scene.judge(RULES, "UPDATE", old=old, new=new).allowed
    assert scene.judge(RULES, "UPDATE", old=new, new=old).allowed


OWNERS = {
    "ownerReferences": [
        {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": kind, "name": NAME, "uid": "u"}
        for kind in ("PCIDevice", "VGPUDevice")
    ]
}


def test_a_claim_becomes_and_ceases_to_be_a_vgpus_by_laneway_only(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    own, vgpus = scene.claim(GPU), scene.claim(GPU, metadata=OWNERS)
    for old, new in ((own, vgpus), (vgpus, own)):
        assert reasons(scene.judge(RULES, "UPDATE", old=old, new=new)) == ["FieldImmutable"]
        assert scene.judge(RULES, "UPDATE", old=old, new=new, user=agent).allowed


# ------------------------------------------------------------------------------------- warnings


def test_the_rest_of_the_group_comes_along(scene: Any) -> None:
    scene.pci(GPU)
    scene.pci(MEMBER, classId="0403")
    scene.pci("0000:08:00.2", classId="0600")
    (warning,) = scene.judge(RULES, "CREATE", new=scene.claim(GPU)).warnings
    assert MEMBER_NAME in warning
    assert "node1-000008002" not in warning, "bridges stay"
    scene.claimed(MEMBER)
    assert scene.judge(RULES, "CREATE", new=scene.claim(GPU)).warnings == ()


def test_a_group_that_two_users_share(scene: Any) -> None:
    scene.pci(GPU)
    scene.pci(MEMBER)
    scene.claimed(MEMBER, "bob")
    (warning,) = scene.judge(RULES, "CREATE", new=scene.claim(GPU)).warnings
    assert f"{MEMBER_NAME} of the same IOMMU group 10 is claimed by another user" in warning


def test_the_nodes_console(scene: Any) -> None:
    scene.pci(GPU, bootVGA=True)
    (warning,) = scene.judge(RULES, "CREATE", new=scene.claim(GPU)).warnings
    assert "console" in warning


OVERRIDE = "pcidevice.harvesterhci.io/override-resource-name"


@pytest.mark.parametrize(("text", "fine"), [("nvidia.com/MINE", True), ("no name", False)])
def test_a_resource_name_that_is_none(scene: Any, text: str, fine: bool) -> None:
    scene.pci(GPU)
    named = scene.claim(GPU, metadata={"annotations": {OVERRIDE: text}})
    made = scene.judge(RULES, "CREATE", new=named)
    changed = scene.judge(RULES, "UPDATE", old=scene.claim(GPU), new=named)
    for verdict in (made, changed):
        assert verdict.allowed
        assert bool(verdict.warnings) is not fine
    assert scene.judge(RULES, "UPDATE", old=named, new=named).warnings == ()


def test_a_device_that_leaves_its_pool(scene: Any) -> None:
    status = {"resourceName": "nvidia.com/X"}
    scene.vm("vm-a", NAME)
    old = scene.claimed(GPU, status=status)
    new = scene.claim(GPU, spec={"disableResourcePooling": True}, status=status)
    (warning,) = scene.judge(RULES, "UPDATE", old=old, new=new).warnings
    assert "nvidia.com/X" in warning
    assert "VM default/vm-a" in warning


def test_a_device_leaves_a_pool_of_which_no_vm_names_it(scene: Any) -> None:
    alone = scene.claim(GPU, spec={"disableResourcePooling": True})
    old = scene.claimed(GPU, status={"resourceName": "nvidia.com/X"})
    (warning,) = scene.judge(RULES, "UPDATE", old=old, new=alone).warnings
    assert "VMs that request nvidia.com/X no longer get it" in warning
    scene.vm("vm-a", NAME)
    unnamed = scene.claim(GPU)
    assert scene.judge(RULES, "UPDATE", old=unnamed, new=alone).warnings == ()


def test_deleting_the_claim_of_the_last_free_device_warns_who_waits_for_it(
    scene: Any,
) -> None:
    waits = Demand(Consumer(ConsumerKind.VM, "lab", "vm-b"), Phase.STOPPED, {"nvidia.com/X": 1})
    scene.known = build(Facts((DeviceFact("node1", "nvidia.com/X", NAME),), (waits,)))
    old = scene.claimed(GPU, status={"resourceName": "nvidia.com/X"})
    verdict = scene.judge(RULES, "DELETE", old=old)
    assert verdict.allowed
    assert "lab/vm-b requests nvidia.com/X" in verdict.warnings[0]


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE])
@pytest.mark.parametrize("written", ["08:00.0", "00000000:08:00.0", "0000:08:00.0", "8:0.0"])
def test_an_address_may_be_written_as_lspci_prints_it(operation: Operation, written: str) -> None:
    spec = PCIDeviceClaimSpec(address=written, node_name="node1", user_name="alice")
    claim = PCIDeviceClaim(spec=spec)
    found = mutate(Request(operation, NAME, "", Requester("alice"), new=claim))
    changed = {"op": "replace", "path": "/spec/address", "value": "0000:08:00.0"}
    assert found == (() if written in ("0000:08:00.0", "8:0.0") else (changed,))
