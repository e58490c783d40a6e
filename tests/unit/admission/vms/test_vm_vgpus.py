"""Which vGPUs, and which displays, one VM can have."""

from __future__ import annotations

from typing import Any

import pytest

GPU = "nvidia.com/GA100_A100"


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


@pytest.mark.parametrize(
    ("profiles", "refused"),
    [
        (("A2-4Q", "A2-4Q"), ""),
        (("A2-4A",), ""),
        (("A2-4A", "A2-4A"), "A2-4A"),
        (("A2-4Q", "A2-4A"), "A2-4A"),
        (("A16-4C", "A16-4C"), "A16-4C"),
        (("A2-2B", "A2-2B"), "A2-2B"),
        (("A40-8C", "A40-8C"), ""),
        (("A40-8B", "A40-8B"), "A40-8B"),
    ],
)
def test_several_vgpus_in_one_vm_by_series_and_board(
    cluster: Any, profiles: tuple[str, ...], refused: str
) -> None:
    for number, profile in enumerate(profiles):
        cluster.vgpu("n1", f"0000:08:00.{number}", f"NVIDIA {profile}")
    asked = [(f"d{n}", f"nvidia.com/NVIDIA_{one}") for n, one in enumerate(profiles)]
    verdict = cluster.judge(cluster.vm(*asked))
    assert [one.reason for one in verdict.refusals] == (["TooManyVgpus"] if refused else [])
    if refused:
        assert words(verdict).startswith(f"NVIDIA {refused} is supported only as the single vGPU")
    if refused == "A2-4A":
        assert "profiles are supported: NVIDIA A2-4Q" in words(verdict)


def test_a_profile_that_allows_one_vgpu(cluster: Any) -> None:
    small = "NVIDIA RTX Pro 6000 Blackwell DC-1-2Q"
    for number in (4, 5):
        cluster.vgpu("n1", f"0000:08:00.{number}", small)
    resource = "nvidia.com/NVIDIA_RTX_Pro_6000_Blackwell_DC-1-2Q"
    assert cluster.judge(cluster.vm(("a", resource))).allowed
    verdict = cluster.judge(cluster.vm(("a", resource), ("b", resource)))
    assert [one.reason for one in verdict.refusals] == ["TooManyVgpus"]
    assert "NVIDIA RTX Pro 6000 Blackwell DC-4Q" in words(verdict)


def test_a_profile_that_allows_several(cluster: Any) -> None:
    big = "NVIDIA RTX Pro 6000 Blackwell DC-4Q"
    names = [cluster.vgpu("n1", f"0000:08:00.{number}", big) for number in (4, 5)]
    assert cluster.judge(cluster.vm(*names)).allowed


def test_of_an_unknown_number_nothing_is_said(cluster: Any) -> None:
    names = [cluster.vgpu("n1", f"0000:08:00.{number}") for number in (4, 5)]
    assert cluster.judge(cluster.vm(*names)).allowed


def gpus(cluster: Any, *displays: dict[str, Any] | None) -> dict[str, Any]:
    entries = []
    for number, display in enumerate(displays):
        name = cluster.vgpu("n1", f"0000:08:00.{number}", framework="mdev")
        entry: dict[str, Any] = {"name": name, "deviceName": "nvidia.com/NVIDIA_A2-2Q"}
        if display is not None:
            entry["virtualGPUOptions"] = {"display": display}
        entries.append(entry)
    raw: dict[str, Any] = cluster.vm(gpus=entries)
    return raw


def test_two_explicit_displays(cluster: Any) -> None:
    assert cluster.reasons(gpus(cluster, {}, {"enabled": True})) == ["MultipleDisplays"]


def test_a_vm_with_two_displays_from_before_can_be_stopped(cluster: Any) -> None:
    old = gpus(cluster, {}, {})
    new = gpus(cluster, {}, {})
    new["spec"]["runStrategy"] = "Halted"
    assert cluster.judge(new, old).allowed


def test_two_displays_of_which_one_has_ramfb(cluster: Any) -> None:
    assert cluster.judge(gpus(cluster, {}, {"ramFB": {"enabled": False}})).allowed


def test_a_display_with_one_that_is_off(cluster: Any) -> None:
    assert cluster.judge(gpus(cluster, {"enabled": False}, {}, None)).allowed
