"""VGPUDevices: which vGPU a virtual function carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules.vgpus import RULES
from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, decode
from laneway.core.keys import ANNOTATION_MOVED
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, Facts, Phase

GPU = "0000:08:00.0"
FUNCTION = "0000:08:00.4"
NAME = "node1-000008004"
Q2, Q4 = "NVIDIA A2-2Q", "NVIDIA A2-4Q"

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def vgpu(
    profile: str = "",
    *,
    enabled: bool = False,
    types: tuple[str, ...] = (Q2, Q4),
    carries: str = "",
    spec: Any = None,
    metadata: Any = None,
    **status: Any,
) -> VGPUDevice:
    raw = {
        "metadata": {"name": NAME, **(metadata or {})},
        "spec": {
            "address": FUNCTION,
            "nodeName": "node1",
            "parentGPUDeviceAddress": GPU,
            "enabled": enabled,
            "vGPUTypeName": profile,
            **(spec or {}),
        },
        "status": {
            "observedGeneration": 1,
            "availableTypes": dict.fromkeys(types, "742"),
            "configureVGPUTypeName": carries,
            **status,
        },
    }
    return decode(VGPUDevice, msgspec.json.encode(raw))


def gpu(scene: Any, *, enabled: bool = True, **status: Any) -> None:
    spec = {"address": GPU, "nodeName": "node1", "enabled": enabled}
    raw = {"metadata": {"name": "node1-000008000"}, "spec": spec, "status": status}
    scene.put("gpus", SRIOVGPUDevice, raw)


def update(scene: Any, old: VGPUDevice, new: VGPUDevice, **request: Any) -> Any:
    if NAME not in {one.metadata.name for one in scene.world.vgpus}:
        scene.world.vgpus.put(old)
    return scene.judge(RULES, "UPDATE", old=old, new=new, **request)


# --------------------------------------------------------------------------------------- enabling


def test_a_profile_that_the_driver_offers(scene: Any) -> None:
    assert update(scene, vgpu(), vgpu(Q2, enabled=True)).allowed


def test_no_profile(scene: Any, reasons: Reasons) -> None:
    verdict = update(scene, vgpu(), vgpu(enabled=True))
    assert reasons(verdict) == ["ProfileMissing"]
    assert f"VGPUTypeName cannot be empty for vGPU device {NAME}" in words(verdict)
    assert f"{Q2}, {Q4}" in words(verdict)


def test_a_profile_that_there_is_not(scene: Any, reasons: Reasons) -> None:
    verdict = update(scene, vgpu(), vgpu("NVIDIA A2-3Q", enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]
    key_words = f"VGPUTypeName NVIDIA A2-3Q is not a valid profile for vGPU device {NAME}"
    assert key_words in words(verdict)
    assert "The driver has no profile of this name" in words(verdict)
    assert verdict.refusals[0].field == "spec.vGPUTypeName"


def test_what_the_driver_offers_now_decides_not_what_it_did(scene: Any, reasons: Reasons) -> None:
    scene.world.vgpus.put(vgpu(types=(Q4,)))
    stale = vgpu(types=(Q2, Q4))
    assert reasons(update(scene, stale, vgpu(Q2, enabled=True))) == ["ProfileNotOffered"]
    scene.world.vgpus.put(vgpu(types=(Q2,)))
    assert update(scene, vgpu(types=(Q4,)), vgpu(Q2, enabled=True)).allowed


def test_the_reason_is_that_the_gpu_is_full(scene: Any) -> None:
    gpu(scene, fits={Q2: 0, Q4: 0}, configured={Q4: 4})
    verdict = update(scene, vgpu(types=()), vgpu(Q4, enabled=True))
    assert "The GPU has A2-4Q=4, and no room for another of this profile." in words(verdict)


def test_the_reason_is_that_the_gpu_is_disabled(scene: Any) -> None:
    gpu(scene, enabled=False)
    verdict = update(scene, vgpu(types=()), vgpu(Q4, enabled=True))
    assert "SRIOVGPUDevice node1-000008000 is not enabled." in words(verdict)


def test_the_reason_is_that_nothing_is_known_yet(scene: Any) -> None:
    verdict = update(scene, vgpu(types=(), observedGeneration=0), vgpu(Q4, enabled=True))
    assert "The agent of the node has not reported" in words(verdict)


def test_a_vgpu_that_is_there_already_is_taken_over(scene: Any, reasons: Reasons) -> None:
    there = vgpu(types=(), carries=Q4)
    assert update(scene, there, vgpu(Q4, enabled=True)).allowed
    verdict = update(scene, there, vgpu(Q2, enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]
    assert "The function already has A2-4Q." in words(verdict)


BUSY = {"generation": 2}
"""Of an object whose desired state has not been answered yet."""


def sibling(scene: Any, profile: str, *, enabled: bool, metadata: Any) -> None:
    name = "node1-000008005"
    other = vgpu(
        profile,
        enabled=enabled,
        types=(),
        carries=Q4,
        spec={"address": "0000:08:00.5"},
        metadata={"name": name, **metadata},
    )
    scene.world.vgpus.put(other)


def test_a_vgpu_that_is_about_to_go_makes_room(scene: Any, reasons: Reasons) -> None:
    """What the driver said is of the moment before."""
    gpu(scene, fits={Q2: 0, Q4: 0}, configured={Q4: 1})
    there = vgpu(Q4, enabled=True, types=(), carries=Q4)
    scene.world.vgpus.put(there)  # What the watch has shown; the disabling is still to come.
    leaving = vgpu(Q4, types=(), carries=Q4, metadata=BUSY)
    verdict = update(scene, leaving, vgpu(Q2, enabled=True))
    assert verdict.allowed
    assert f"is removing the vGPU of {NAME}" in verdict.warnings[0]
    assert reasons(update(scene, leaving, vgpu("NVIDIA A2-3Q", enabled=True))) == [
        "ProfileNotOffered"
    ]


def test_a_vgpu_that_is_being_removed_makes_room(scene: Any) -> None:
    """Its agent has answered that it is at it, and the status still has the vGPU."""
    gpu(scene, fits={Q2: 0, Q4: 0}, configured={Q4: 1})
    answer = {"type": "Ready", "status": "False", "reason": "InProgress"}
    leaving = vgpu(Q4, types=(), carries=Q4, conditions=[answer])
    verdict = update(scene, leaving, vgpu(Q2, enabled=True))
    assert verdict.allowed
    assert f"is removing the vGPU of {NAME}" in verdict.warnings[0]


@pytest.mark.parametrize(
    ("profile", "enabled", "metadata", "fine"),
    [
        ("", False, BUSY, True),
        (Q2, True, BUSY, True),
        (Q4, True, BUSY, False),
        ("", False, {"generation": 1}, False),
    ],
    ids=["disabled", "changed", "as it was", "answered"],
)
def test_so_does_one_of_another_function_of_the_gpu(
    scene: Any, profile: str, enabled: bool, metadata: Any, fine: bool
) -> None:
    gpu(scene, fits={Q2: 0, Q4: 0}, configured={Q4: 1})
    sibling(scene, profile, enabled=enabled, metadata=metadata)
    verdict = update(scene, vgpu(types=()), vgpu(Q2, enabled=True))
    assert verdict.allowed is fine
    assert any("is removing the vGPU of node1-000008005" in one for one in verdict.warnings) is fine


def test_a_profile_may_be_written_down_before_it_is_possible(scene: Any) -> None:
    assert update(scene, vgpu(), vgpu("NVIDIA A2-3Q")).allowed


def test_an_agent_asks_the_driver_itself(scene: Any, agent: str) -> None:
    assert update(scene, vgpu(types=()), vgpu(Q4, enabled=True), user=agent).allowed
    assert update(scene, vgpu(types=()), vgpu("", enabled=True), user=agent).allowed


def test_what_was_stored_before_may_stay(scene: Any) -> None:
    """Labels of an object that would not be admitted today."""
    odd = vgpu("NVIDIA A2-3Q", enabled=True)
    labelled = vgpu("NVIDIA A2-3Q", enabled=True, metadata={"labels": {"a": "b"}})
    scene.vm("vm-a", NAME)
    assert update(scene, odd, labelled).allowed


# ------------------------------------------------------------------------------ taking it away


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("as_user", ["alice", "agent"])
def test_a_vgpu_in_use_is_neither_disabled_nor_changed(
    scene: Any, reasons: Reasons, agent: str, runs: bool, as_user: str
) -> None:
    user = agent if as_user == "agent" else "alice"
    scene.vm("vm-a", NAME, runs=runs)
    old = vgpu(Q2, enabled=True, carries=Q2)
    for new in (vgpu(Q2), vgpu(Q4, enabled=True)):
        verdict = update(scene, old, new, user=user)
        assert reasons(verdict) == ["DeviceInUse"]
        assert f"device {NAME} is in use with VM default/vm-a" in words(verdict)


def test_a_vgpu_that_is_not_there_affects_no_vm(scene: Any) -> None:
    scene.vm("vm-a", NAME)
    assert update(scene, vgpu(Q2), vgpu(Q4)).allowed


def test_a_vgpu_that_is_not_in_use_is_disabled(scene: Any) -> None:
    assert update(scene, vgpu(Q2, enabled=True), vgpu(Q2)).allowed


def test_the_profile_of_a_vgpu_changes_to_one_that_the_gpu_has(
    scene: Any, reasons: Reasons
) -> None:
    """What is possible once the present vGPU is gone is not known while it is there."""
    gpu(scene, fits={Q2: 0, Q4: 0}, configured={Q4: 1})
    old = vgpu(Q4, enabled=True, carries=Q4, types=())
    assert update(scene, old, vgpu(Q2, enabled=True)).allowed
    verdict = update(scene, old, vgpu("NVIDIA A2-3Q", enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]
    assert reasons(update(scene, old, vgpu("", enabled=True))) == ["ProfileMissing"]


def test_the_profile_of_a_vgpu_changes_where_its_state_is_not_known(scene: Any) -> None:
    old = vgpu(Q4, enabled=True, carries=Q4, types=())
    assert update(scene, old, vgpu(Q2, enabled=True)).allowed


def test_an_object_that_no_watch_has_shown_yet(scene: Any, reasons: Reasons) -> None:
    for profile, fine in ((Q2, True), ("NVIDIA A2-3Q", False)):
        verdict = scene.judge(RULES, "UPDATE", old=vgpu(), new=vgpu(profile, enabled=True))
        assert reasons(verdict) == ([] if fine else ["ProfileNotOffered"])


def test_a_desired_state_that_follows_its_card_to_another_slot(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    scene.vm("vm-a", NAME)
    old = vgpu(Q2, enabled=True, metadata={"resourceVersion": "41"})
    for version, fine in (("41", True), ("40", False)):
        new = vgpu(Q4, enabled=True, metadata={"annotations": {ANNOTATION_MOVED: version}})
        assert update(scene, old, new, user=agent).allowed is fine
        assert not update(scene, old, new).allowed, "not by anybody"


def test_taking_the_last_free_one_warns_who_waits_for_it(scene: Any) -> None:
    resource = "nvidia.com/NVIDIA_A2-2Q"
    stopped = Demand(Consumer(ConsumerKind.VM, "lab", "vm-b"), Phase.STOPPED, {resource: 1})
    mine, other = (DeviceFact("node1", resource, one) for one in (NAME, "node1-000008005"))
    old, new = vgpu(Q2, enabled=True, resourceName=resource), vgpu(Q2)
    scene.known = build(Facts((mine,), (stopped,)))
    (warning,) = update(scene, old, new).warnings
    assert "lab/vm-b requests nvidia.com/NVIDIA_A2-2Q" in warning
    scene.known = build(Facts((mine, other), (stopped,)))
    assert update(scene, old, new).warnings == ()
    scene.known = build(Facts((mine,)))
    assert update(scene, old, new).warnings == ()


# ------------------------------------------------------------------------- what it is, deletion


def test_what_a_vgpu_is_on_is_immutable(scene: Any, reasons: Reasons) -> None:
    spec = {
        "address": "0000:08:00.5",
        "nodeName": "node2",
        "parentGPUDeviceAddress": "0000:09:00.0",
    }
    verdict = update(scene, vgpu(), vgpu(spec=spec))
    assert reasons(verdict) == ["FieldImmutable"] * 3
    assert f"vgpudevice {NAME} parentGPUDeviceAddress is immutable" in words(verdict)


def test_what_was_never_said_may_be_said_once(scene: Any) -> None:
    assert update(scene, vgpu(spec={"parentGPUDeviceAddress": ""}), vgpu()).allowed


def test_a_vgpu_that_is_made_by_hand(scene: Any, reasons: Reasons, agent: str) -> None:
    assert reasons(scene.judge(RULES, "CREATE", new=vgpu())) == ["DeviceNotFound"]
    scene.pci(GPU)
    assert scene.judge(RULES, "CREATE", new=vgpu()).allowed
    assert scene.judge(RULES, "CREATE", new=vgpu(Q2, enabled=True)).allowed
    assert reasons(scene.judge(RULES, "CREATE", new=vgpu(enabled=True))) == ["ProfileMissing"]
    wrong = vgpu(spec={"address": "0000:08:00.5"})
    assert reasons(scene.judge(RULES, "CREATE", new=wrong)) == ["NameMismatch"]
    assert scene.judge(RULES, "CREATE", new=wrong, user=agent).allowed


def test_a_vgpu_in_use_is_not_deleted(scene: Any, reasons: Reasons, agent: str) -> None:
    scene.vm("vm-a", NAME)
    assert reasons(scene.judge(RULES, "DELETE", old=vgpu())) == ["DeviceInUse"]
    assert scene.judge(RULES, "DELETE", old=vgpu(), user=agent).allowed
    scene.node_leaves()
    assert scene.judge(RULES, "DELETE", old=vgpu()).allowed


def test_the_object_of_a_function_that_is_there_comes_again(scene: Any) -> None:
    assert scene.judge(RULES, "DELETE", old=vgpu()).warnings == ()
    scene.pci(FUNCTION)
    verdict = scene.judge(RULES, "DELETE", old=vgpu())
    assert verdict.allowed
    assert f"The agent creates vgpudevice {NAME} again" in verdict.warnings[0]


# ------------------------------------------------------------------- what was admitted just now


def others(scene: Any, count: int, profile: str = Q4, **status: Any) -> None:
    """VGPUs that are admitted on the GPU, and of which no status tells yet."""
    for number in range(5, 5 + count):
        name = f"node1-0000080{number:02}"
        spec = {"address": f"0000:08:00.{number}"}
        one = vgpu(profile, enabled=True, spec=spec, metadata={"name": name, **BUSY}, **status)
        scene.world.vgpus.put(one)


def test_what_was_admitted_takes_room_before_anybody_observes_it(
    scene: Any, reasons: Reasons
) -> None:
    gpu(scene, mode="SameSize", fits={Q2: 8, Q4: 4})
    others(scene, 3)
    assert update(scene, vgpu(), vgpu(Q4, enabled=True)).allowed
    others(scene, 4)
    verdict = update(scene, vgpu(), vgpu(Q4, enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]
    assert "Other VGPUDevices request A2-4Q=4 on the GPU, which has room for 4." in words(verdict)
    gpu(scene, mode="SameSize", fits={Q2: 0, Q4: 1}, configured={Q4: 4})
    assert update(scene, vgpu(), vgpu(Q4, enabled=True)).allowed


def test_a_desired_state_that_its_agent_refused_takes_no_room(scene: Any) -> None:
    gpu(scene, mode="SameSize", fits={Q2: 8, Q4: 1})
    exhausted = {"type": "Ready", "status": "False", "reason": "ProfileExhausted"}
    others(scene, 1, observedGeneration=2, conditions=[exhausted])
    assert update(scene, vgpu(), vgpu(Q4, enabled=True)).allowed


@pytest.mark.parametrize("reason", ["GpuNotReady", "GpuPreparing"])
def test_one_that_waits_for_its_gpu_takes_room(scene: Any, reasons: Reasons, reason: str) -> None:
    """The second is what an agent of the release before wrote."""
    gpu(scene, mode="SameSize", fits={Q2: 8, Q4: 1})
    waits = {"type": "Ready", "status": "False", "reason": reason}
    others(scene, 1, observedGeneration=2, conditions=[waits])
    verdict = update(scene, vgpu(), vgpu(Q4, enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]


def test_what_was_admitted_decides_the_size(scene: Any, reasons: Reasons) -> None:
    gpu(scene, mode="SameSize", fits={Q2: 8, Q4: 4})
    others(scene, 1)
    verdict = update(scene, vgpu(), vgpu(Q2, enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]
    assert "have one size" in words(verdict)
    assert words(verdict).endswith(f"Possible now: {Q4}.")
    gpu(scene, mode="MixedSize", fits={Q2: 8, Q4: 4})
    assert update(scene, vgpu(), vgpu(Q2, enabled=True)).allowed


# ------------------------------------------------------------------------------ why it is not


@pytest.mark.parametrize(
    ("status", "profile", "why"),
    [
        ({"mode": "MIGBacked"}, "GRID A100-40C", "is time-sliced, and the GPU is in mode MIGB"),
        ({"mode": "SameSize"}, "GRID A100-7-40C", "needs a GPU instance, and the GPU is in mode"),
        (
            {"mode": "MIGBacked", "fits": {"GRID A100-7-40C": 0}},
            "GRID A100-7-40C",
            "The profile needs a GPU instance 7g.40gb, and the GPU has 3g.20gb=1.",
        ),
        (
            {"mode": "SameSize", "fits": {Q4: 0}, "configured": {"NVIDIA A2-8Q": 1}},
            Q4,
            "The GPU has A2-8Q=1, and all of its vGPUs have one size in mode SameSize.",
        ),
    ],
)
def test_the_reason_is_the_mode_of_the_gpu(
    scene: Any, status: dict[str, Any], profile: str, why: str
) -> None:
    gpu(scene, **status)
    profiles = [
        {"name": "MIG 7g.40gb", "id": 0, "total": 1},
        {"name": "MIG 3g.20gb", "id": 9, "total": 2, "vGPUID": ["1"]},
    ]
    raw = {"metadata": {"name": "node1-000008000"}, "status": {"profileStatus": profiles}}
    scene.put("migs", MigConfiguration, raw)
    assert why in words(update(scene, vgpu(types=()), vgpu(profile, enabled=True)))
