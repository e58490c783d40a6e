"""Whose devices a VM may have: claims, their users, rights on them, and claims that come late."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import Condition, OwnerReference

GPU = "nvidia.com/GA100_A100"


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def test_another_users_device(cluster: Any) -> None:
    """Row 88: anybody could take any device."""
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    verdict = cluster.judge(cluster.vm(gpu))
    assert [one.reason for one in verdict.refusals] == ["ClaimedByOther"]
    assert "bob" not in words(verdict)
    assert f"use on pcideviceclaims {gpu}" in words(verdict)
    cluster.granted.add(("pcideviceclaims", gpu))
    assert cluster.judge(cluster.vm(gpu)).allowed


def test_another_users_usb_device(cluster: Any) -> None:
    usb = cluster.usb("n1", 11, claimed="bob")
    assert cluster.reasons(cluster.vm(usb)) == ["ClaimedByOther"]
    cluster.granted.add(("usbdeviceclaims", usb))
    assert cluster.judge(cluster.vm(usb)).allowed


def test_a_vgpu_is_for_everybody(cluster: Any) -> None:
    vgpu = cluster.vgpu("n1", "0000:08:00.4")
    assert cluster.judge(cluster.vm(vgpu), user="carol").allowed
    assert cluster.asked == []


def test_a_claim_that_only_says_that_a_vgpu_has_it_is_its_users(cluster: Any) -> None:
    plain = cluster.pci("n1", "0000:09:00.0", claimed=None)
    owner = OwnerReference(api_version="", kind="VGPUDevice", name=plain, uid="")
    cluster.claim("n1", "0000:09:00.0", GPU, user="bob", owners=[owner])
    assert cluster.reasons(cluster.vm(plain)) == ["ClaimedByOther"]


def test_a_claim_that_names_no_user_is_for_everybody(cluster: Any) -> None:
    assert cluster.judge(cluster.vm(cluster.pci("n1", "0000:08:00.0", claimed=""))).allowed
    verdict = cluster.judge(cluster.vm(("any", GPU)))
    assert verdict.allowed
    assert verdict.warnings == ()
    assert cluster.asked == []


def test_of_a_pool_as_many_must_be_ones_own_as_are_requested_on_one_node(cluster: Any) -> None:
    cluster.pci("n1", "0000:08:00.0")
    cluster.pci("n2", "0000:08:00.0")
    cluster.pci("n1", "0000:09:00.0", claimed="bob")
    one = cluster.judge(cluster.vm(("a", GPU)))
    assert one.allowed
    assert "Other users have also claimed devices of" in one.warnings[0]
    assert "bob" not in one.warnings[0]
    both = cluster.vm(("a", GPU), ("b", GPU))
    verdict = cluster.judge(both)
    assert [one.reason for one in verdict.refusals] == ["ClaimedByOther"]
    assert "the VM requests 2 on one node, where 'alice' may use 1" in words(verdict)
    cluster.granted.add(("pcideviceclaims", ""))
    verdict = cluster.judge(both)
    assert verdict.allowed
    assert verdict.warnings == ()


def test_a_right_on_the_one_claim_of_a_pool_is_enough(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    cluster.granted.add(("pcideviceclaims", gpu))
    verdict = cluster.judge(cluster.vm(("a", GPU)))
    assert verdict.allowed
    assert verdict.warnings == ()


def test_a_right_on_a_claim_of_one_pool_is_none_on_another(cluster: Any) -> None:
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    other = cluster.pci("n1", "0000:09:00.0", "nvidia.com/OTHER", claimed="bob")
    cluster.granted.add(("pcideviceclaims", other))
    verdict = cluster.judge(cluster.vm(("a", "nvidia.com/OTHER"), ("b", GPU)))
    assert [one.reason for one in verdict.refusals] == ["ClaimedByOther"]
    assert GPU in words(verdict)


def test_a_right_on_all_claims_holds_beyond_those_that_are_asked_about_by_name(
    cluster: Any,
) -> None:
    many = 40
    for bus in range(many):
        cluster.pci("n1", f"0000:{bus:02x}:00.0", claimed="bob")
    cluster.granted.add(("pcideviceclaims", ""))
    assert cluster.judge(cluster.vm(*((f"d{number}", GPU) for number in range(many)))).allowed
    assert len(cluster.asked) < many


@pytest.mark.parametrize("named", [True, False])
def test_a_vm_that_is_applied_together_with_its_claim_waits_for_it(
    cluster: Any, named: bool
) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="alice")
    cluster.answered(gpu)
    verdict = cluster.judge(cluster.vm((gpu if named else "any", GPU)))

    assert verdict.allowed
    assert verdict.warnings[0].startswith("The VM waits for a device that is not ready yet: ")


@pytest.mark.parametrize(("reason", "allowed"), [("NotPermitted", True), ("Unhealthy", False)])
def test_a_vm_waits_for_a_vgpu_that_has_just_been_made(
    cluster: Any, reason: str, allowed: bool
) -> None:
    """As when a layout and the VM are applied together."""
    name = cluster.vgpu("n1", "0000:08:00.4", framework="mdev")
    vgpu = cluster.world.vgpus.get(name)
    reported = [
        Condition(type="Ready", status="True", reason="Configured"),
        Condition(type="Advertised", status="False", reason=reason, message="So it is."),
    ]
    status = msgspec.structs.replace(vgpu.status, conditions=reported)
    cluster.world.vgpus.put(msgspec.structs.replace(vgpu, status=status))

    assert cluster.judge(cluster.vm(("any", "nvidia.com/NVIDIA_A2-2Q"))).allowed is allowed


@pytest.mark.parametrize(
    ("bound", "reason", "allowed"),
    [("True", "NotPermitted", True), ("True", "Unhealthy", False), ("False", "DeviceInUse", False)],
)
def test_a_claim_that_will_not_come_about_by_itself_is_not_waited_for(
    cluster: Any, bound: str, reason: str, allowed: bool
) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="alice")
    cluster.answered(
        gpu,
        Condition(type="Bound", status=bound),
        Condition(type="Ready", status="False", reason=reason, message="So it is."),
    )

    assert cluster.judge(cluster.vm((gpu, GPU))).allowed is allowed
