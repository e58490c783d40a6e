"""USBDeviceClaims, USBDevices and PCIDevices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.request import Operation, Request, Requester
from laneway.admission.rules import pci_devices, usb_devices
from laneway.admission.rules.ownership import right
from laneway.admission.rules.usb_claims import RULES, mutate
from laneway.api import PCIDevice, USBDevice, USBDeviceClaim, decode

NAME = "node1-046d-c52b-003011"
CONTROLLER = "0000:00:14.0"
ADMINISTER = (right("usbdeviceclaims", NAME),)

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def claim(user: str = "alice", *, node: str = "node1", **metadata: Any) -> USBDeviceClaim:
    raw = {
        "metadata": {"name": NAME, **metadata},
        "spec": {"userName": user},
        "status": {"nodeName": node},
    }
    return decode(USBDeviceClaim, msgspec.json.encode(raw))


def device(scene: Any, **status: Any) -> USBDevice:
    status = {"nodeName": "node1", "pciAddress": CONTROLLER, **status}
    found: USBDevice = scene.put(
        "usb_devices", USBDevice, {"metadata": {"name": NAME}, "status": status}
    )
    return found


def test_a_usb_device_is_claimed(scene: Any) -> None:
    device(scene)
    assert scene.judge(RULES, "CREATE", new=claim()).allowed


def test_a_usb_device_that_there_is_not(scene: Any, reasons: Reasons) -> None:
    verdict = scene.judge(RULES, "CREATE", new=claim())
    assert reasons(verdict) == ["DeviceNotFound"]
    assert NAME in words(verdict)


def test_a_usb_device_that_the_node_needs(scene: Any, reasons: Reasons) -> None:
    said = {"type": "Claimable", "status": "False", "reason": "CriticalToNode", "message": "boot"}
    device(scene, conditions=[said])
    verdict = scene.judge(RULES, "CREATE", new=claim())
    assert reasons(verdict) == ["NotClaimable"]
    assert f"usbdevice {NAME} cannot be claimed: boot" in words(verdict)


def test_a_usb_device_whose_controller_is_claimed(scene: Any, reasons: Reasons) -> None:
    device(scene)
    scene.claimed(CONTROLLER)
    verdict = scene.judge(RULES, "CREATE", new=claim())
    assert reasons(verdict) == ["UsbControllerClaimed"]
    assert "node1-000000140" in words(verdict)


def test_a_usb_device_in_anothers_name(scene: Any, reasons: Reasons) -> None:
    device(scene)
    assert reasons(scene.judge(RULES, "CREATE", new=claim("bob"))) == ["UserNameForbidden"]
    assert scene.judge(RULES, "CREATE", new=claim("bob"), rights=ADMINISTER).allowed


def test_a_usb_claim_that_names_no_user_is_the_requesters() -> None:
    request = Request(Operation.CREATE, NAME, "", Requester("alice"), new=claim(""))
    assert mutate(request) == ({"op": "add", "path": "/spec", "value": {"userName": "alice"}},)


def test_the_username_of_a_usb_claim_is_immutable(scene: Any, reasons: Reasons) -> None:
    verdict = scene.judge(RULES, "UPDATE", old=claim(), new=claim("bob"))
    assert reasons(verdict) == ["FieldImmutable"]
    assert f"usbdeviceclaim {NAME} username is immutable" in words(verdict)


def test_the_usb_claim_of_another_user(scene: Any, reasons: Reasons) -> None:
    assert reasons(scene.judge(RULES, "DELETE", old=claim("bob"))) == ["NotClaimOwner"]
    assert scene.judge(RULES, "DELETE", old=claim("bob"), rights=ADMINISTER).allowed
    labelled = claim("bob", labels={"a": "b"})
    assert reasons(scene.judge(RULES, "UPDATE", old=claim("bob"), new=labelled)) == [
        "NotClaimOwner"
    ]


@pytest.mark.parametrize("runs", [True, False])
def test_a_usb_claim_that_a_vm_names(scene: Any, reasons: Reasons, runs: bool) -> None:
    scene.vm("vm-a", NAME, runs=runs)
    verdict = scene.judge(RULES, "DELETE", old=claim())
    assert reasons(verdict) == ["ClaimInUse"]
    assert f"usbdeviceclaim {NAME} is still in use by VM default/vm-a" in words(verdict)


def test_a_usb_claim_that_no_vm_names(scene: Any) -> None:
    scene.vm("vm-a", "another")
    assert scene.judge(RULES, "DELETE", old=claim()).allowed


@pytest.mark.parametrize("node", ["node1", ""])
def test_a_usb_claim_of_a_node_that_is_gone(scene: Any, node: str) -> None:
    scene.vm("vm-a", NAME)
    device(scene)
    scene.node_leaves()
    assert scene.judge(RULES, "DELETE", old=claim("bob", node=node)).allowed


# --------------------------------------------------------------------- objects of the agents


def test_the_object_of_a_usb_device_that_vms_can_use(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    found = device(scene, enabled=True)
    verdict = scene.judge(usb_devices.RULES, "DELETE", old=found)
    assert reasons(verdict) == ["DeviceClaimed"]
    assert f"usbdevice {NAME} is still in use" in words(verdict)
    assert scene.judge(usb_devices.RULES, "DELETE", old=found, user=agent).allowed
    scene.node_leaves()
    assert scene.judge(usb_devices.RULES, "DELETE", old=found).allowed


def test_the_object_of_a_usb_device_that_is_claimed(scene: Any, reasons: Reasons) -> None:
    found = device(scene)
    scene.world.usb_claims.put(claim())
    assert reasons(scene.judge(usb_devices.RULES, "DELETE", old=found)) == ["DeviceClaimed"]


def test_the_object_of_any_other_usb_device_comes_again(scene: Any) -> None:
    verdict = scene.judge(usb_devices.RULES, "DELETE", old=device(scene))
    assert verdict.allowed
    assert "agent creates usbdevice" in verdict.warnings[0]
    gone = device(scene, status="orphaned")
    assert scene.judge(usb_devices.RULES, "DELETE", old=gone).warnings == ()


def test_the_object_of_a_pci_device_takes_its_claim_along(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    found = scene.pci(CONTROLLER)
    assert (
        "agent creates pcidevice" in scene.judge(pci_devices.RULES, "DELETE", old=found).warnings[0]
    )
    scene.claimed(CONTROLLER)
    verdict = scene.judge(pci_devices.RULES, "DELETE", old=found)
    assert reasons(verdict) == ["DeviceClaimed"]
    assert scene.judge(pci_devices.RULES, "DELETE", old=found, user=agent).allowed
    scene.node_leaves()
    assert scene.judge(pci_devices.RULES, "DELETE", old=found).allowed


def test_a_resource_name_that_is_none_on_a_pci_device(scene: Any) -> None:
    old = scene.pci(CONTROLLER)
    key = "pcidevice.harvesterhci.io/override-resource-name"
    for text, said in (("nvidia.com/MINE", 0), ("not a name", 1)):
        raw = {"metadata": {"name": old.metadata.name, "annotations": {key: text}}}
        new = decode(PCIDevice, msgspec.json.encode(raw))
        verdict = scene.judge(pci_devices.RULES, "UPDATE", old=old, new=new)
        assert verdict.allowed
        assert len(verdict.warnings) == said


def test_the_collector_takes_no_device_in_use(scene: Any, reasons: Reasons) -> None:
    collector = "system:serviceaccount:kube-system:generic-garbage-collector"
    scene.vm("vm-a", NAME)
    assert scene.judge(RULES, "DELETE", old=claim("bob"), user=collector).allowed
    device(scene)
    verdict = scene.judge(RULES, "DELETE", old=claim("bob"), user=collector)
    assert reasons(verdict) == ["ClaimInUse"]
