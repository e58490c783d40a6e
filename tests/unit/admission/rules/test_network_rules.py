"""SRIOVNetworkDevices: how many virtual functions a card has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules.network import RULES
from laneway.api import SRIOVNetworkDevice, decode

CARD = "0000:04:00.0"
VFS = ("0000:04:10.0", "0000:04:10.2")
VF_NAMES = ("node1-000004100", "node1-000004102")

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def card(num_vfs: int, *, vfs: tuple[str, ...] = VF_NAMES, **spec: Any) -> SRIOVNetworkDevice:
    raw = {
        "metadata": {"name": "node1-ens1f0"},
        "spec": {"address": CARD, "nodeName": "node1", "numVFs": num_vfs, **spec},
        "status": {"vfPCIDevices": list(vfs)},
    }
    return decode(SRIOVNetworkDevice, msgspec.json.encode(raw))


def update(scene: Any, before: int, after: int, **request: Any) -> Any:
    old = card(before, vfs=VF_NAMES if before else ())
    scene.world.cards.put(old)
    return scene.judge(RULES, "UPDATE", old=old, new=card(after), **request)


@pytest.mark.parametrize(("count", "fine"), [(0, True), (8, True), (9, False), (-1, False)])
def test_as_many_as_the_card_can_have(scene: Any, reasons: Reasons, count: int, fine: bool) -> None:
    scene.pci(CARD, sriov={"totalVFs": 8, "numVFs": 0})
    for verdict in (
        update(scene, 1, count),
        scene.judge(RULES, "CREATE", new=card(count)),
    ):
        assert reasons(verdict) == ([] if fine else ["VfCountInvalid"])
        assert fine or "0 to 8" in words(verdict)


def test_a_card_that_the_node_uses_keeps_its_number(scene: Any, reasons: Reasons) -> None:
    uplink = "serves the node's network: ens1f0 is part of bond vlan1-bo"
    scene.pci(CARD, sriov={"totalVFs": 8, "numVFs": 2}, critical=[uplink])
    for verdict in (update(scene, 2, 4), scene.judge(RULES, "CREATE", new=card(0))):
        assert reasons(verdict) == ["CriticalToNode"]
        assert uplink in words(verdict)
    assert scene.judge(RULES, "CREATE", new=card(2)).allowed
    assert update(scene, 4, 2).allowed  # back to what there is


def test_what_is_not_known_to_be_too_many_is_admitted(scene: Any) -> None:
    assert update(scene, 0, 64).allowed
    assert not update(scene, 0, -1).allowed


@pytest.mark.parametrize(("before", "after"), [(2, 0), (2, 1), (2, 4)])
def test_functions_that_are_claimed_stand_in_the_way_of_any_other_number(
    scene: Any, reasons: Reasons, before: int, after: int
) -> None:
    for one in VFS:
        scene.claimed(one)
    verdict = update(scene, before, after)
    assert reasons(verdict) == ["VfsClaimed"]
    names = ",".join(VF_NAMES)
    assert f"pcideviceclaims {names} related to sriovnetworkdevice node1-ens1f0 in use" in words(
        verdict
    )


def test_an_update_that_leaves_the_number_is_not_judged_by_it(scene: Any) -> None:
    scene.claimed(VFS[0])
    assert update(scene, 2, 2).allowed


def test_functions_come_with_nothing_else(scene: Any) -> None:
    assert update(scene, 0, 2).allowed


def test_functions_that_are_not_claimed_go(scene: Any) -> None:
    assert update(scene, 2, 0).allowed


def test_the_functions_that_there_are_now_count(scene: Any, reasons: Reasons) -> None:
    """The client may have read the object before there were any."""
    scene.world.cards.put(card(2))
    scene.claimed(VFS[1])
    verdict = scene.judge(RULES, "UPDATE", old=card(2, vfs=()), new=card(0))
    assert reasons(verdict) == ["VfsClaimed"]


def test_a_function_that_a_vm_names(scene: Any, reasons: Reasons, agent: str) -> None:
    scene.vm("vm-a", VF_NAMES[0])
    for user in ("alice", agent):
        verdict = update(scene, 2, 0, user=user)
        assert reasons(verdict) == ["DeviceInUse"]
        assert f"device {VF_NAMES[0]} is in use with VM default/vm-a" in words(verdict)


def test_what_a_card_is_is_immutable(scene: Any, reasons: Reasons) -> None:
    other = card(2, address="0000:05:00.0", nodeName="node2")
    verdict = scene.judge(RULES, "UPDATE", old=card(2), new=other)
    assert reasons(verdict) == ["FieldImmutable", "FieldImmutable"]


def test_a_card_that_there_is_not(scene: Any, reasons: Reasons, agent: str) -> None:
    assert reasons(scene.judge(RULES, "CREATE", new=card(0))) == ["DeviceNotFound"]
    assert scene.judge(RULES, "CREATE", new=card(0), user=agent).allowed


def test_deletion_with_claims(scene: Any, reasons: Reasons, agent: str) -> None:
    scene.claimed(VFS[0])
    assert reasons(scene.judge(RULES, "DELETE", old=card(2))) == ["VfsClaimed"]
    assert scene.judge(RULES, "DELETE", old=card(2), user=agent).allowed
    scene.node_leaves()
    assert scene.judge(RULES, "DELETE", old=card(2)).allowed


def test_deletion_without_claims_is_undone_by_the_agent(scene: Any) -> None:
    scene.pci(CARD)
    verdict = scene.judge(RULES, "DELETE", old=card(2))
    assert verdict.allowed
    assert "the agent creates sriovnetworkdevice" in verdict.warnings[0]
