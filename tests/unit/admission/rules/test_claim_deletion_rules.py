"""When a PCIDeviceClaim may go, and whose claim no other user may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.admission.request import Operation, Request, Requester
from laneway.admission.rules.claims import RULES
from laneway.admission.rules.ownership import right
from laneway.api import CoreNode

GPU = "0000:08:00.0"
NAME = "node1-000008000"
ADMINISTER = (right("pcideviceclaims", NAME),)
OWNERS = {
    "ownerReferences": [
        {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": kind, "name": NAME, "uid": "u"}
        for kind in ("PCIDevice", "VGPUDevice")
    ]
}

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def test_a_claim_that_is_not_in_use_is_deleted(scene: Any) -> None:
    verdict = scene.judge(RULES, "DELETE", old=scene.claimed(GPU))
    assert verdict.allowed
    assert verdict.warnings == ()


RECORD = f'{{"hostdevices":{{"nvidia.com/X":["{NAME}"]}}}}'


def test_a_claim_in_use_with_a_running_vm(scene: Any, reasons: Reasons) -> None:
    scene.vm("vm-a", "free-text", record=RECORD, runs=True)
    verdict = scene.judge(RULES, "DELETE", old=scene.claimed(GPU))
    assert reasons(verdict) == ["ClaimInUse"]
    key_words = f"pcideviceclaim {NAME} is already in use with VM default/vm-a"
    assert key_words in words(verdict)
    assert "it runs" in words(verdict)


def test_a_claim_kept_for_a_stopped_vm(scene: Any) -> None:
    scene.vm("vm-a", "free-text", record=RECORD)
    verdict = scene.judge(RULES, "DELETE", old=scene.claimed(GPU))
    assert "it is stopped; the device stays reserved for it" in words(verdict)


def test_a_claim_that_a_vm_names_which_never_ran(scene: Any) -> None:
    scene.vm("vm-a", NAME)
    verdict = scene.judge(RULES, "DELETE", old=scene.claimed(GPU))
    assert "VM default/vm-a" in words(verdict)
    assert "has not started" in words(verdict)


def test_a_claim_that_the_kubelet_gave_to_a_pod(scene: Any) -> None:
    claim = scene.claimed(GPU, status={"allocation": {"namespace": "lab", "pod": "p-1"}})
    assert "pod lab/p-1" in words(scene.judge(RULES, "DELETE", old=claim))


def test_a_right_to_administer_does_not_take_devices_from_vms(scene: Any, reasons: Reasons) -> None:
    scene.vm("vm-a", NAME)
    verdict = scene.judge(RULES, "DELETE", old=scene.claimed(GPU, "bob"), rights=ADMINISTER)
    assert reasons(verdict) == ["ClaimInUse"]


def test_the_claim_of_a_vgpu_is_not_deleted_by_hand(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    claim = scene.claimed(GPU, "admin", metadata=OWNERS)
    verdict = scene.judge(RULES, "DELETE", old=claim, user="admin", rights=ADMINISTER)
    assert reasons(verdict) == ["ClaimManaged"]
    assert f"cannot be deleted, it is owned by VGPUDevice {NAME}" in words(verdict)
    assert scene.judge(RULES, "DELETE", old=claim, user=agent).allowed


def test_a_claim_that_goes_with_its_pci_device_is_still_its_users(scene: Any) -> None:
    """As Harvester's clients make claims."""
    owner = {"ownerReferences": OWNERS["ownerReferences"][:1]}
    claim = scene.claimed(GPU, metadata=owner)
    scene.pci(GPU)
    assert scene.judge(RULES, "CREATE", new=claim).allowed
    assert scene.judge(RULES, "DELETE", old=claim).allowed


def test_nor_is_it_made_by_hand(scene: Any, reasons: Reasons, agent: str) -> None:
    claim = scene.claim(GPU, "admin", metadata=OWNERS)
    verdict = scene.judge(RULES, "CREATE", new=claim, user="admin", rights=ADMINISTER)
    assert reasons(verdict) == ["ClaimManaged"]
    assert scene.judge(RULES, "CREATE", new=claim, user=agent).allowed


COLLECTORS = pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    ],
)


@COLLECTORS
def test_what_follows_from_another_deletion_has_no_user(scene: Any, user: str) -> None:
    scene.pci(GPU)
    for claim in (scene.claimed(GPU, "bob"), scene.claimed(GPU, metadata=OWNERS)):
        assert scene.judge(RULES, "DELETE", old=claim, user=user).allowed
        request = Request(Operation.DELETE, NAME, "", Requester(user), old=claim)
        assert not list(RULES.asks(request, scene.world))


@COLLECTORS
def test_but_no_device_goes_that_is_in_use(scene: Any, reasons: Reasons, user: str) -> None:
    scene.pci(GPU)
    scene.vm("vm-a", NAME)
    claim = scene.claimed(GPU, "bob")
    verdict = scene.judge(RULES, "DELETE", old=claim, user=user)
    assert reasons(verdict) == ["ClaimInUse"]
    assert "VM default/vm-a" in verdict.refusals[0].words


@COLLECTORS
def test_unless_it_has_gone_already(scene: Any, user: str) -> None:
    scene.vm("vm-a", NAME)
    assert scene.judge(RULES, "DELETE", old=scene.claimed(GPU, "bob"), user=user).allowed


def test_a_claim_of_a_node_that_is_gone_may_go(scene: Any) -> None:
    scene.vm("vm-a", NAME)
    claim = scene.claimed(GPU, "bob", metadata=OWNERS)
    scene.node_leaves()
    assert scene.judge(RULES, "DELETE", old=claim).allowed


def test_a_claim_of_a_node_that_is_being_deleted_may_go(scene: Any) -> None:
    scene.vm("vm-a", NAME)
    meta = {"name": "node1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    scene.put("nodes", CoreNode, {"metadata": meta})
    assert scene.judge(RULES, "DELETE", old=scene.claimed(GPU)).allowed


def test_what_is_being_deleted_may_be_deleted_again(scene: Any) -> None:
    scene.vm("vm-a", NAME)
    going = scene.claimed(GPU, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert scene.judge(RULES, "DELETE", old=going).allowed
