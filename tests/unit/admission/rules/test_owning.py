"""One owner per GPU: a layout, or the GPU's single VGPUDevices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.rules import gpus, layouts, migs, vgpus
from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, VGPULayout, decode

GPU, FIRST, SECOND = "0000:08:00.0", "0000:08:00.4", "0000:08:00.5"
NAME = "node1-000008000"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"

Reasons = Callable[[Any], list[str]]


def layout(
    name: str = "desks", count: int = 2, made: str = "", said: Any = None, **spec: Any
) -> VGPULayout:
    """`said`: what its status says of the GPU."""
    raw = {
        "metadata": {"name": name, "creationTimestamp": made, "generation": 1},
        "spec": {"vgpus": [{"profile": Q4, "count": count}], **spec},
        "status": {"gpus": [{"name": NAME, "nodeName": "node1", **said}] if said else []},
    }
    return decode(VGPULayout, msgspec.json.encode(raw))


AGENT = "system:serviceaccount:harvester-system:laneway-agent"
APPLIED = {"state": "Done", "acceptedGeneration": 1, "observedGeneration": 1}
REFUSED = {"state": "Refused", "final": True, "observedGeneration": 1}


def vgpu(address: str, profile: str) -> VGPUDevice:
    spec = {
        "address": address,
        "nodeName": "node1",
        "parentGPUDeviceAddress": GPU,
        "enabled": bool(profile),
        "vGPUTypeName": profile,
    }
    name = f"node1-{address.replace(':', '').replace('.', '')}"
    types = {Q4: "1", Q8: "2"}
    raw = {"metadata": {"name": name}, "spec": spec, "status": {"availableTypes": types}}
    return decode(VGPUDevice, msgspec.json.encode(raw))


@pytest.fixture
def world(scene: Any) -> Any:
    """A GPU with two single vGPUs."""
    scene.pci(GPU, deviceId="25b6", subsystemDeviceId="157e", sriov={"totalVFs": 16, "numVFs": 16})
    spec = {"address": GPU, "nodeName": "node1", "enabled": True}
    scene.put("gpus", SRIOVGPUDevice, {"metadata": {"name": NAME}, "spec": spec})
    for address in (FIRST, SECOND):
        scene.world.vgpus.put(vgpu(address, Q4))
    return scene


def test_what_single_vgpus_request_is_replaced_only_on_demand(world: Any, reasons: Reasons) -> None:
    verdict = world.judge(layouts.RULES, "CREATE", new=layout(count=3))
    assert reasons(verdict) == ["OwnedByVgpuDevices"]
    (why,) = verdict.refusals
    assert "A2-4Q=2" in why.words
    assert "spec.takeOver" in why.words
    refused = layout(count=3, said=REFUSED)
    world.world.layouts.put(refused)
    changed = layout(count=4, said=REFUSED)
    assert reasons(world.judge(layouts.RULES, "UPDATE", old=refused, new=changed)) == [
        "OwnedByVgpuDevices"
    ]
    for new in (layout(count=3, takeOver=True), layout(count=2), layout(count=3, dryRun=True)):
        assert world.judge(layouts.RULES, "CREATE", new=new).allowed


def test_a_layout_that_owns_a_gpu_may_request_anything(world: Any) -> None:
    old = layout(said=APPLIED)
    world.world.layouts.put(old)
    assert world.judge(layouts.RULES, "UPDATE", old=old, new=layout(count=3, said=APPLIED)).allowed


def test_a_second_layout_is_refused_with_the_name_of_the_first(
    world: Any, reasons: Reasons
) -> None:
    world.world.layouts.put(layout("first", made="2026-01-01T00:00:00Z", said=APPLIED))
    for new in (layout(), layout(takeOver=True), layout(made="2025-01-01T00:00:00Z")):
        verdict = world.judge(layouts.RULES, "CREATE", new=new)
        assert reasons(verdict) == ["OwnedByLayout"]
        assert "kubectl edit vgpulayout first" in verdict.refusals[0].words
    elsewhere: dict[str, Any] = {"gpuSelector": {"names": ["node1-000009000"]}}
    for free in (layout(dryRun=True), layout(**elsewhere)):
        assert world.judge(layouts.RULES, "CREATE", new=free).allowed


def of_gpu(kind: type[Any], **spec: Any) -> Any:
    raw = {"metadata": {"name": NAME}, "spec": {"nodeName": "node1", **spec}}
    return decode(kind, msgspec.json.encode(raw))


def changes() -> list[tuple[Any, Any, Any]]:
    """Rules, and an object before and after a change."""
    shared = [of_gpu(SRIOVGPUDevice, address=GPU, mode=mode) for mode in ("", "MixedSize")]
    divided = [of_gpu(MigConfiguration, gpuAddress=GPU, enabled=on) for on in (True, False)]
    return [
        (vgpus.RULES, vgpu(FIRST, Q4), vgpu(FIRST, "")),
        (vgpus.RULES, vgpu(FIRST, ""), vgpu(FIRST, Q8)),
        (gpus.RULES, shared[0], shared[1]),
        (migs.RULES, divided[0], divided[1]),
    ]


@pytest.mark.parametrize("said", [APPLIED, None], ids=["applied", "not answered yet"])
@pytest.mark.parametrize("change", changes())
def test_single_objects_of_a_layouts_gpu_are_not_changed(
    world: Any, reasons: Reasons, said: Any, change: tuple[Any, Any, Any]
) -> None:
    rules, before, after = change
    world.world.layouts.put(layout(said=said))
    verdict = world.judge(rules, "UPDATE", old=before, new=after)
    assert reasons(verdict) == ["OwnedByLayout"]
    assert "kubectl delete vgpulayout desks" in verdict.refusals[0].words
    assert "OwnedByLayout" not in reasons(
        world.judge(rules, "UPDATE", old=before, new=after, user=AGENT)
    )


@pytest.mark.parametrize("spec", [{"dryRun": True}, {"nodeSelector": {"names": ["node2"]}}, {}])
def test_a_layout_that_is_not_applied_owns_nothing(world: Any, spec: Any) -> None:
    world.world.layouts.put(layout(said=None if spec else REFUSED, **spec))
    assert world.judge(vgpus.RULES, "UPDATE", old=vgpu(FIRST, Q4), new=vgpu(FIRST, "")).allowed
