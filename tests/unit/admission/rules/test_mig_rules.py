"""MigConfigurations: into which GPU instances a GPU is divided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules.migs import RULES
from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, decode

GPU = "0000:08:00.0"
NAME = "node1-000008000"
VGPU = "node1-000008004"
A100 = {
    "1g.5gb": 7,
    "1g.5gb+me": 1,
    "1g.10gb": 4,
    "2g.10gb": 3,
    "3g.20gb": 2,
    "4g.20gb": 1,
    "7g.40gb": 1,
}

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def mig(
    asked: dict[str, int] | None = None,
    *,
    enabled: bool = False,
    there: dict[str, list[str]] | None = None,
    status: str = "disabled",
    **spec: Any,
) -> MigConfiguration:
    """`asked`: counts by profile. `there`: ids of the instances that exist."""
    wanted = [{"name": f"MIG {one}", "requested": count} for one, count in (asked or {}).items()]
    raw = {
        "metadata": {"name": NAME},
        "spec": {
            "enabled": enabled,
            "gpuAddress": GPU,
            "nodeName": "node1",
            "profileSpec": wanted,
            **spec,
        },
        "status": {
            "status": status,
            "profileStatus": [
                {"name": f"MIG {one}", "total": total, "vGPUID": (there or {}).get(one, [])}
                for one, total in A100.items()
            ],
        },
    }
    return decode(MigConfiguration, msgspec.json.encode(raw))


def vgpu(scene: Any, *, enabled: bool = True, instance: int | None = None) -> None:
    spec = {
        "address": "0000:08:00.4",
        "nodeName": "node1",
        "parentGPUDeviceAddress": GPU,
        "enabled": enabled,
    }
    raw = {"metadata": {"name": VGPU}, "spec": spec, "status": {"gpuInstance": instance}}
    scene.put("vgpus", VGPUDevice, raw)


def update(scene: Any, old: MigConfiguration, new: MigConfiguration, **request: Any) -> Any:
    scene.world.migs.put(old)
    return scene.judge(RULES, "UPDATE", old=old, new=new, **request)


@pytest.mark.parametrize(
    "asked",
    [
        {"1g.5gb": 7},
        {"2g.10gb": 2, "1g.5gb": 3},
        {"3g.20gb": 2},
        {"4g.20gb": 1, "3g.20gb": 1},
        {"7g.40gb": 1},
        {"7g.40gb": 0},
        {},
    ],
)
def test_what_fits_is_enabled(scene: Any, asked: dict[str, int]) -> None:
    verdict = update(scene, mig(), mig(asked, enabled=True))
    assert verdict.allowed
    assert verdict.warnings == ()


@pytest.mark.parametrize("enabled", [True, False])
def test_more_than_seven_instances(scene: Any, reasons: Reasons, enabled: bool) -> None:
    asked = {"1g.5gb": 6, "2g.10gb": 2}
    for verdict in (
        update(scene, mig(enabled=enabled), mig(asked, enabled=enabled)),
        update(scene, mig(), mig(asked, enabled=enabled)),
    ):
        assert reasons(verdict) == ["InstancesDoNotFit"]
        assert "more than 7 instances defined: 8." in words(verdict)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"3g.20gb": 2, "1g.5gb": 1}, "9 of 8 memory slices"),
        ({"4g.20gb": 1, "2g.10gb": 2}, "8 of 7 compute slices"),
        ({"7g.40gb": 1, "1g.5gb": 1}, "8 of 7 compute slices"),
        ({"1g.10gb": 4, "1g.5gb": 1}, "9 of 8 memory slices"),
    ],
)
def test_what_does_not_fit_together(
    scene: Any, reasons: Reasons, asked: dict[str, int], why: str
) -> None:
    verdict = update(scene, mig(), mig(asked, enabled=True))
    assert reasons(verdict) == ["InstancesDoNotFit"]
    assert why in words(verdict)
    assert update(scene, mig(), mig(asked)).allowed, "as long as nobody asks for it"


def test_more_of_a_profile_than_there_can_be(scene: Any, reasons: Reasons) -> None:
    verdict = update(scene, mig(), mig({"3g.20gb": 3}, enabled=True))
    assert reasons(verdict) == ["InstancesDoNotFit"]
    key_words = "requested count 3 of profile MIG 3g.20gb is more than the available count 2"
    assert key_words in words(verdict)


def test_a_profile_that_the_gpu_has_not(scene: Any, reasons: Reasons) -> None:
    verdict = update(scene, mig(), mig({"9g.99gb": 1}, enabled=True))
    assert reasons(verdict) == ["ProfileNotOffered"]


def test_odd_numbers(scene: Any, reasons: Reasons) -> None:
    assert reasons(update(scene, mig(), mig({"1g.5gb": -1}))) == ["CountInvalid"]
    twice = [{"name": "MIG 1g.5gb", "requested": 1}, {"name": "1g.5gb", "requested": 2}]
    assert reasons(update(scene, mig(), mig(profileSpec=twice))) == ["DuplicateProfile"]


def test_nothing_is_known_of_the_card_yet(scene: Any) -> None:
    raw = {"metadata": {"name": NAME}, "spec": {"gpuAddress": GPU, "nodeName": "node1"}}
    blank = decode(MigConfiguration, msgspec.json.encode(raw))
    assert update(scene, blank, mig({"3g.20gb": 3}, enabled=True)).allowed


@pytest.mark.parametrize("status", ["synced", "out-of-sync"])
def test_another_division_is_a_desired_state_like_any_other(scene: Any, status: str) -> None:
    """Harvester refuses it, for nothing there brings a GPU from one to the other."""
    old = mig({"1g.5gb": 2}, enabled=True, there={"1g.5gb": ["1", "2"]}, status=status)
    verdict = update(scene, old, mig({"3g.20gb": 1}, enabled=True))
    assert verdict.allowed
    assert f"MIGConfiguration {NAME} is {status}" in verdict.warnings[0]


def test_a_division_that_is_enabled_again_says_nothing(scene: Any) -> None:
    old = mig({"1g.5gb": 2}, status="synced")
    assert update(scene, old, mig({"3g.20gb": 1}, enabled=True)).warnings == ()
    disabled = mig({"1g.5gb": 2}, enabled=True, status="disabled")
    assert update(scene, disabled, mig({"3g.20gb": 1}, enabled=True)).warnings == ()


def test_but_not_where_it_leaves_no_room_for_a_vgpu_in_use(scene: Any, reasons: Reasons) -> None:
    there = {"1g.5gb": ["1", "2"], "3g.20gb": ["3"]}
    old = mig({"1g.5gb": 2, "3g.20gb": 1}, enabled=True, there=there, status="synced")
    vgpu(scene, instance=2)
    assert update(scene, old, mig({"3g.20gb": 1}, enabled=True)).allowed
    scene.vm("vm-a", VGPU)
    assert reasons(update(scene, old, mig({"3g.20gb": 1}, enabled=True))) == ["DeviceInUse"]
    assert update(scene, old, mig({"1g.5gb": 1}, enabled=True)).allowed, "one is left for it"


def test_disabling_with_an_enabled_vgpu(scene: Any, reasons: Reasons, agent: str) -> None:
    vgpu(scene)
    old, new = mig({"1g.5gb": 1}, enabled=True), mig({"1g.5gb": 1})
    verdict = update(scene, old, new)
    assert reasons(verdict) == ["VgpusEnabled"]
    assert f"cannot disable MIGConfiguration {NAME} as vGPU {VGPU} is enabled" in words(verdict)
    assert update(scene, old, new, user=agent).allowed
    scene.vm("vm-a", VGPU)
    assert reasons(update(scene, old, new, user=agent)) == ["DeviceInUse"]


def test_disabling_without_one(scene: Any) -> None:
    vgpu(scene, enabled=False)
    assert update(scene, mig({"1g.5gb": 1}, enabled=True), mig({"1g.5gb": 1})).allowed


@pytest.mark.parametrize(("mode", "said"), [("SameSize", 1), ("MIG", 0), ("", 0)])
def test_a_gpu_that_is_not_to_be_in_mig_mode(scene: Any, mode: str, said: int) -> None:
    raw = {"metadata": {"name": NAME}, "spec": {"mode": mode}}
    scene.put("gpus", SRIOVGPUDevice, raw)
    verdict = update(scene, mig(), mig({"1g.5gb": 1}, enabled=True))
    assert verdict.allowed
    assert len(verdict.warnings) == said


def test_what_it_is_about_is_immutable(scene: Any, reasons: Reasons) -> None:
    other = mig(gpuAddress="0000:09:00.0", nodeName="node2")
    assert reasons(update(scene, mig(), other)) == ["FieldImmutable", "FieldImmutable"]


def test_what_was_stored_before_may_stay(scene: Any) -> None:
    odd = mig({"1g.5gb": 9}, enabled=True)
    assert update(scene, odd, odd).allowed


def test_one_that_is_made_by_hand(scene: Any, reasons: Reasons, agent: str) -> None:
    assert reasons(scene.judge(RULES, "CREATE", new=mig())) == ["DeviceNotFound"]
    scene.pci(GPU)
    assert scene.judge(RULES, "CREATE", new=mig({"1g.5gb": 7})).allowed
    many = scene.judge(RULES, "CREATE", new=mig({"1g.5gb": 8}))
    assert reasons(many) == ["InstancesDoNotFit"]
    wrong = mig(gpuAddress="0000:09:00.0")
    assert reasons(scene.judge(RULES, "CREATE", new=wrong)) == ["NameMismatch"]
    assert scene.judge(RULES, "CREATE", new=wrong, user=agent).allowed


def test_deletion_changes_nothing(scene: Any) -> None:
    scene.put("gpus", SRIOVGPUDevice, {"metadata": {"name": NAME}})
    verdict = scene.judge(RULES, "DELETE", old=mig({"1g.5gb": 1}, enabled=True))
    assert verdict.allowed
    assert "creates the object again" in verdict.warnings[0]
