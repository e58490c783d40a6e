"""SRIOVGPUDevices: whether a GPU is shared, and in which mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules.gpus import RULES
from laneway.api import CoreNode, MigConfiguration, SRIOVGPUDevice, VGPUDevice, decode

GPU = "0000:08:00.0"
NAME = "node1-000008000"
VGPU = "node1-000008004"

Reasons = Callable[[Any], list[str]]


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def gpu(*, enabled: bool = True, mode: str = "", shown: str = "", **spec: Any) -> SRIOVGPUDevice:
    raw = {
        "metadata": {"name": NAME},
        "spec": {"address": GPU, "nodeName": "node1", "enabled": enabled, "mode": mode, **spec},
        "status": {"vGPUDevices": [VGPU] if enabled else [], "mode": shown},
    }
    return decode(SRIOVGPUDevice, msgspec.json.encode(raw))


def vgpu(scene: Any, *, enabled: bool) -> None:
    spec = {
        "address": "0000:08:00.4",
        "nodeName": "node1",
        "parentGPUDeviceAddress": GPU,
        "enabled": enabled,
    }
    scene.put("vgpus", VGPUDevice, {"metadata": {"name": VGPU}, "spec": spec})


def update(scene: Any, old: SRIOVGPUDevice, new: SRIOVGPUDevice, **request: Any) -> Any:
    scene.world.gpus.put(old)
    return scene.judge(RULES, "UPDATE", old=old, new=new, **request)


def test_a_gpu_whose_vgpus_are_disabled_is_disabled(scene: Any) -> None:
    vgpu(scene, enabled=False)
    assert update(scene, gpu(), gpu(enabled=False)).allowed


def test_a_gpu_with_a_vgpu_in_use(scene: Any, reasons: Reasons) -> None:
    vgpu(scene, enabled=False)
    scene.vm("vm-a", VGPU)
    verdict = update(scene, gpu(), gpu(enabled=False))
    assert reasons(verdict) == ["DeviceInUse"]
    assert f"device {VGPU} is in use with VM default/vm-a" in words(verdict)


def test_a_gpu_with_an_enabled_vgpu(scene: Any, reasons: Reasons) -> None:
    vgpu(scene, enabled=True)
    verdict = update(scene, gpu(), gpu(enabled=False))
    assert reasons(verdict) == ["VgpusEnabled"]
    assert VGPU in words(verdict)


def test_an_agent_sees_itself_which_vgpus_there_are_but_not_who_names_them(
    scene: Any, reasons: Reasons, agent: str
) -> None:
    vgpu(scene, enabled=True)
    assert update(scene, gpu(), gpu(enabled=False), user=agent).allowed
    scene.vm("vm-a", VGPU)
    assert reasons(update(scene, gpu(), gpu(enabled=False), user=agent)) == ["DeviceInUse"]


def test_a_vgpu_whose_object_only_the_gpu_tells_of(scene: Any, reasons: Reasons) -> None:
    scene.vm("vm-a", VGPU)
    assert reasons(update(scene, gpu(), gpu(enabled=False))) == ["DeviceInUse"]


@pytest.mark.parametrize(
    ("modes", "fine"),
    [
        (("SameSize", "", "SameSize"), True),
        (("SameSize", "SameSize", ""), True),
        (("SameSize", "", "MixedSize"), False),
        (("MixedSize", "MixedSize", "SameSize"), False),
        (("SameSize", "", "MIGBacked"), False),
        (("MIGBacked", "MIGBacked", "SameSize"), False),
        (("", "", "MixedSize"), True),
    ],
)
def test_a_mode_that_takes_vgpus_away(
    scene: Any, reasons: Reasons, modes: tuple[str, str, str], fine: bool
) -> None:
    shown, before, after = modes
    old, new = gpu(mode=before, shown=shown), gpu(mode=after, shown=shown)
    assert update(scene, old, new).allowed
    vgpu(scene, enabled=True)
    assert reasons(update(scene, old, new)) == ([] if fine else ["VgpusEnabled"])
    scene.vm("vm-a", VGPU)
    expected = [] if fine else ["DeviceInUse", "VgpusEnabled"]
    assert reasons(update(scene, old, new)) == expected


@pytest.mark.parametrize("mode", ["Passthrough", "MIG"])
def test_a_mode_without_functions_for_a_gpu_that_has_them(
    scene: Any, reasons: Reasons, mode: str
) -> None:
    assert reasons(update(scene, gpu(), gpu(mode=mode))) == ["ModeConflict"]
    assert update(scene, gpu(), gpu(enabled=False, mode=mode)).allowed


def test_a_mode_that_there_is_not(scene: Any, reasons: Reasons) -> None:
    assert reasons(update(scene, gpu(), gpu(mode="Turbo"))) == ["ModeInvalid"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_gpu_that_is_to_leave_mig_mode(scene: Any, reasons: Reasons, asked: bool) -> None:
    spec = {"enabled": asked, "profileSpec": [{"name": "MIG 1g.5gb", "requested": 1}]}
    scene.put("migs", MigConfiguration, {"metadata": {"name": NAME}, "spec": spec})
    old = gpu(mode="MIGBacked", shown="MIGBacked")
    assert reasons(update(scene, old, gpu(mode="SameSize"))) == (
        ["MigConfigurationEnabled"] if asked else []
    )


def test_a_gpu_that_stays_in_mig_mode_or_has_no_instances_to_lose(scene: Any) -> None:
    spec = {"enabled": True, "profileSpec": [{"name": "MIG 1g.5gb", "requested": 1}]}
    scene.put("migs", MigConfiguration, {"metadata": {"name": NAME}, "spec": spec})
    old = gpu(mode="MIGBacked", shown="MIGBacked")
    assert update(scene, old, gpu(enabled=False, mode="MIG", shown="MIGBacked")).allowed
    spec["profileSpec"] = [{"name": "MIG 1g.5gb", "requested": 0}]
    scene.put("migs", MigConfiguration, {"metadata": {"name": NAME}, "spec": spec})
    assert update(scene, old, gpu(mode="SameSize")).allowed


def test_what_the_gpu_is_now_counts_not_what_it_was(scene: Any, reasons: Reasons) -> None:
    vgpu(scene, enabled=True)
    scene.world.gpus.put(gpu(shown="MixedSize"))
    stale = gpu(shown="SameSize")
    verdict = scene.judge(RULES, "UPDATE", old=stale, new=gpu(mode="SameSize"))
    assert reasons(verdict) == ["VgpusEnabled"]
    assert scene.judge(RULES, "UPDATE", old=stale, new=gpu(mode="MixedSize")).allowed


def label_node(scene: Any) -> None:
    labels = {"harvesterhci.io/gpu-baremetal-workloads": "true"}
    scene.put("nodes", CoreNode, {"metadata": {"name": "node1", "labels": labels}})


def test_a_gpu_that_is_for_containers(scene: Any, reasons: Reasons, agent: str) -> None:
    scene.pci(GPU)
    assert update(scene, gpu(enabled=False), gpu()).allowed
    label_node(scene)
    for verdict in (
        update(scene, gpu(enabled=False), gpu()),
        scene.judge(RULES, "CREATE", new=gpu()),
    ):
        assert reasons(verdict) == ["GpusForContainers"]
    assert update(scene, gpu(enabled=False), gpu(), user=agent).allowed
    assert update(scene, gpu(), gpu(enabled=False)).allowed


def test_a_gpu_that_is_claimed_as_a_whole(scene: Any) -> None:
    scene.claimed(GPU, "bob")
    verdict = update(scene, gpu(enabled=False), gpu())
    assert verdict.allowed
    assert "claimed as a whole" in verdict.warnings[0]


def test_what_a_gpu_is_is_immutable(scene: Any, reasons: Reasons) -> None:
    other = gpu(address="0000:09:00.0", nodeName="node2")
    verdict = update(scene, gpu(), other)
    assert reasons(verdict) == ["FieldImmutable", "FieldImmutable"]
    assert f"sriovgpudevice {NAME} address is immutable" in words(verdict)


def test_a_gpu_that_is_made_by_hand(scene: Any, reasons: Reasons, agent: str) -> None:
    assert reasons(scene.judge(RULES, "CREATE", new=gpu())) == ["DeviceNotFound"]
    other = gpu(address="0000:09:00.0")
    assert reasons(scene.judge(RULES, "CREATE", new=other)) == ["NameMismatch"]
    assert scene.judge(RULES, "CREATE", new=gpu(), user=agent).allowed
    scene.pci(GPU)
    assert scene.judge(RULES, "CREATE", new=gpu()).allowed
    assert reasons(scene.judge(RULES, "CREATE", new=gpu(mode="MIG"))) == ["ModeConflict"]


def test_a_gpu_that_is_enabled_is_not_deleted(scene: Any, reasons: Reasons, agent: str) -> None:
    verdict = scene.judge(RULES, "DELETE", old=gpu())
    assert reasons(verdict) == ["GpuShared"]
    assert f"disable gpuDevice {NAME} before deletion" in words(verdict)
    assert scene.judge(RULES, "DELETE", old=gpu(), user=agent).allowed
    scene.node_leaves()
    assert scene.judge(RULES, "DELETE", old=gpu()).allowed


def test_the_object_of_a_gpu_that_is_there_comes_again(scene: Any) -> None:
    assert scene.judge(RULES, "DELETE", old=gpu(enabled=False)).warnings == ()
    scene.pci(GPU)
    verdict = scene.judge(RULES, "DELETE", old=gpu(enabled=False))
    assert verdict.allowed
    assert "the agent creates sriovgpudevice" in verdict.warnings[0]
