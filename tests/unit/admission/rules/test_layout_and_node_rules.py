"""VGPULayouts, and the one label of the cluster's nodes that is Laneway's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules import nodes
from laneway.admission.rules.layouts import RULES
from laneway.api import CoreNode, SRIOVGPUDevice, VGPULayout, decode

GPU = "0000:08:00.0"
NIC = "0000:04:00.1"
NAME = "node1-000008000"
A2, A100 = "25b6", "20b0"

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def layout(
    *vgpus: tuple[str, int], name: str = "rendering", made: str = "", **spec: Any
) -> VGPULayout:
    raw = {
        "metadata": {"name": name, "creationTimestamp": made},
        "spec": {"vgpus": [{"profile": one, "count": n} for one, n in vgpus], **spec},
    }
    return decode(VGPULayout, msgspec.json.encode(raw))


def gpu(
    scene: Any,
    address: str = GPU,
    *,
    enabled: bool = False,
    device: str = A2,
    fits: dict[str, int] | None = None,
) -> None:
    sriov = {"totalVFs": 16, "numVFs": 0}
    function = scene.pci(address, deviceId=device, subsystemDeviceId="157e", sriov=sriov)
    spec = {"address": address, "nodeName": "node1", "enabled": enabled}
    metadata = {"name": function.metadata.name}
    raw = {"metadata": metadata, "spec": spec, "status": {"fits": fits or {}}}
    scene.put("gpus", SRIOVGPUDevice, raw)


def test_a_layout_that_fits(scene: Any) -> None:
    gpu(scene)
    for vgpus in ([("NVIDIA A2-4Q", 4)], [("NVIDIA A2-2Q", 8)], []):
        verdict = scene.judge(RULES, "CREATE", new=layout(*vgpus))
        assert verdict.allowed
        assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("vgpus", "spec", "why"),
    [
        ([("NVIDIA A2-4Q", 5)], {}, "at most 4 fit"),
        ([("NVIDIA A2-4Q", 1), ("NVIDIA A2-2Q", 1)], {}, "differ in size"),
        ([("NVIDIA A40-4Q", 1)], {}, "NVIDIA A40-4Q"),
        ([("NVIDIA A2-2Q", 17)], {}, "virtual functions"),
    ],
)
def test_a_layout_that_does_not_fit_is_admitted_and_says_so(
    scene: Any, vgpus: list[tuple[str, int]], spec: dict[str, Any], why: str
) -> None:
    gpu(scene)
    verdict = scene.judge(RULES, "CREATE", new=layout(*vgpus, **spec))
    assert verdict.allowed
    assert why in " ".join(verdict.warnings)
    assert verdict.warnings[0].startswith(f"{NAME}: ")


def test_gpus_of_one_model_are_reported_once(scene: Any) -> None:
    gpu(scene)
    gpu(scene, "0000:09:00.0")
    gpu(scene, "0000:0a:00.0", device="2235")
    one, other = scene.judge(RULES, "CREATE", new=layout(("NVIDIA A2-4Q", 5))).warnings
    assert one.startswith("node1-00000a000: ")
    assert other.startswith(f"{NAME} and 1 more of the same model: ")


def test_instances_that_do_not_fit(scene: Any) -> None:
    gpu(scene, device=A100)
    asked = [("GRID A100X-3-20C", 2), ("GRID A100X-1-5C", 1)]
    verdict = scene.judge(RULES, "CREATE", new=layout(*asked))
    assert verdict.allowed
    assert "GPU instances" in verdict.warnings[0]


@pytest.mark.parametrize(
    ("vgpus", "spec", "reason"),
    [
        ([("NVIDIA A2-4Q", 0)], {}, "CountInvalid"),
        ([("NVIDIA A2-4Q", -1)], {}, "CountInvalid"),
        ([("no profile at all", 1)], {}, "ProfileNotOffered"),
        ([("", 1)], {}, "ProfileNotOffered"),
        ([("NVIDIA A2-4Q", 1)], {"mode": "Turbo"}, "ModeInvalid"),
        ([("NVIDIA A2-4Q", 1)], {"mode": "Passthrough"}, "ModeConflict"),
        ([("NVIDIA A2-4Q", 1)], {"mode": "MIGBacked"}, "ModeConflict"),
    ],
)
def test_a_layout_that_contradicts_itself(
    scene: Any, reasons: Reasons, vgpus: list[tuple[str, int]], spec: Any, reason: str
) -> None:
    new = layout(*vgpus, **spec)
    assert reasons(scene.judge(RULES, "CREATE", new=new)) == [reason]
    assert reasons(scene.judge(RULES, "UPDATE", old=layout(), new=new)) == [reason]
    assert scene.judge(RULES, "UPDATE", old=new, new=new).allowed


@pytest.mark.parametrize("asked", ["NVIDIA a2-4q", "a2-4q", "A2-4Q"])
def test_a_profile_is_known_by_its_short_name_in_any_case(scene: Any, asked: str) -> None:
    gpu(scene, fits={"NVIDIA A2-4Q": 4})
    verdict = scene.judge(RULES, "CREATE", new=layout((asked, 4)))
    assert (verdict.allowed, verdict.warnings) == (True, ())


def test_of_a_profile_that_there_is_not_the_closest_of_the_driver_is_reported(scene: Any) -> None:
    gpu(scene, fits={"NVIDIA A2-8Q": 2, "NVIDIA A2-4Q": 4, "NVIDIA A2-3B": 0})
    (warning,) = scene.judge(RULES, "CREATE", new=layout(("NVIDIA A2-9Q", 1))).warnings
    assert "Closest: NVIDIA A2-" in warning
    assert "A2-3B" not in warning
    verdict = scene.judge(RULES, "CREATE", new=layout(("NVIDIA A2-8", 1)))
    assert "Closest: NVIDIA A2-8Q." in words(verdict)


def test_a_layout_that_means_no_gpu(scene: Any) -> None:
    gpu(scene)
    for selector in (
        {"nodeSelector": {"names": ["node2"]}},
        {"nodeSelector": {"matchLabels": {"a": "b"}}},
        {"gpuSelector": {"names": ["node1-000009000"]}},
        {"gpuSelector": {"deviceIDs": ["2235"]}},
    ):
        verdict = scene.judge(RULES, "CREATE", new=layout(**selector))
        assert verdict.allowed
        assert "The layout selects no GPU" in verdict.warnings[0]


def test_a_layout_may_always_go(scene: Any) -> None:
    assert scene.judge(RULES, "DELETE", old=layout(("odd", -1))).allowed


# --------------------------------------------------------------------------------------- nodes


def node(label: str = "", **metadata: Any) -> CoreNode:
    labels = {"harvesterhci.io/gpu-baremetal-workloads": label} if label else {}
    raw = {"metadata": {"name": "node1", "labels": labels, **metadata}}
    return decode(CoreNode, msgspec.json.encode(raw))


def test_gpus_that_are_shared_are_not_for_containers(scene: Any, reasons: Reasons) -> None:
    gpu(scene, enabled=True)
    verdict = scene.judge(nodes.RULES, "UPDATE", old=node(), new=node("true"))
    assert reasons(verdict) == ["GpuShared"]
    assert NAME in words(verdict)
    for before, after in (("true", "true"), ("", ""), ("", "false"), ("true", "")):
        assert scene.judge(nodes.RULES, "UPDATE", old=node(before), new=node(after)).allowed


def test_gpus_that_are_not_shared_are(scene: Any) -> None:
    gpu(scene)
    verdict = scene.judge(nodes.RULES, "UPDATE", old=node(), new=node("true"))
    assert verdict.allowed
    assert verdict.warnings == ()
    scene.claimed(GPU)
    verdict = scene.judge(nodes.RULES, "UPDATE", old=node(), new=node("true"))
    assert verdict.allowed
    assert NAME in verdict.warnings[0]


def test_other_devices_that_are_claimed_are_no_matter_of_containers(scene: Any) -> None:
    gpu(scene)
    scene.pci(NIC, classId="0200")
    scene.claimed(NIC)
    verdict = scene.judge(nodes.RULES, "UPDATE", old=node(), new=node("true"))
    assert verdict.allowed
    assert verdict.warnings == ()


@pytest.mark.parametrize("after", ["", "false"])
def test_gpus_that_containers_have_stay_theirs(scene: Any, reasons: Reasons, after: str) -> None:
    scene.pod("other", "node1", "cpu.example.com/x", phase="Running")
    scene.pod("elsewhere", "node2", "nvidia.com/gpu", phase="Running")
    scene.pod("over", "node1", "nvidia.com/gpu", phase="Succeeded")
    old, new = node("true"), node(after)
    assert scene.judge(nodes.RULES, "UPDATE", old=old, new=new).allowed
    scene.pod("training", "node1", "nvidia.com/gpu", phase="Running")
    scene.pod("part", "node1", "nvidia.com/mig-1g.5gb", phase="Pending")
    verdict = scene.judge(nodes.RULES, "UPDATE", old=old, new=new)
    assert reasons(verdict) == ["GpuPodsRunning"]
    assert "default/part, default/training" in words(verdict)


def test_a_node_comes_and_goes_whatever_its_label(scene: Any) -> None:
    gpu(scene, enabled=True)
    scene.pod("training", "node1", "nvidia.com/gpu", phase="Running")
    assert scene.judge(nodes.RULES, "CREATE", new=node("true")).allowed
    assert scene.judge(nodes.RULES, "DELETE", old=node("true")).allowed
