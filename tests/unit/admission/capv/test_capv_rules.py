"""VSphereMachines, their templates and VSphereVMs: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

KINDS = ("VSphereMachine", "VSphereMachineTemplate", "VSphereVM")
BASE = dict.fromkeys(KINDS, "spec") | {"VSphereMachineTemplate": "spec.template.spec"}
T4 = {"deviceId": 7864, "vendorId": 4318}
VGPU = {"vGPUProfile": "grid_t4-16q"}
EITHER = "should have either deviceId + vendorId or vGPUProfile set"
GROUP = "infrastructure.cluster.x-k8s.io"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_has_the_form_of_capvs_and_the_path_of_the_field(
    scene: Any, kind: str
) -> None:
    half = {"deviceId": 7864, "customLabel": "ä"}
    [(path, words)] = await scene.causes(scene.obj(kind, {"pciDevices": [VGPU, half]}))
    assert path == f"{BASE[kind]}.pciDevices[1]"
    assert words.startswith(f'Invalid value: {{"deviceId":7864,"customLabel":"ä"}}: {EITHER}')
    status = scene.answer["status"]
    assert status["message"] == f'{kind}.{GROUP} "gpu" is invalid: {path}: {words}'
    details = status["details"]
    assert (details["name"], details["group"], details["kind"]) == ("gpu", GROUP, kind)
    assert details["causes"][0]["reason"] == "FieldValueInvalid"


@pytest.mark.parametrize("kind", KINDS)
async def test_everything_that_is_wrong_is_reported_at_once(scene: Any, kind: str) -> None:
    spec = {"pciDevices": [T4, {}], "nestedHV": True, "hardwareVersion": "vmx-13"}
    causes = await scene.causes(scene.obj(kind, spec))
    fields = [path.removeprefix(f"{BASE[kind]}.") for path, _ in causes]
    assert fields == ["pciDevices[1]", "hardwareVersion", "nestedHV"]
    assert "is invalid: [" in scene.answer["status"]["message"]


async def test_two_hundred_wrong_devices_are_reported_in_bounds(scene: Any) -> None:
    spec = {"pciDevices": [{"vGPUProfile": "x" * 2000}] * 200}
    causes = await scene.causes(scene.obj("VSphereVM", spec))
    assert len(causes) == 32
    assert causes[0] == ("spec.pciDevices", "Too many: 200: must have at most 128 items")
    message = scene.answer["status"]["message"]
    assert message.endswith("and 97 more errors]")
    assert len(message) < 10_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a\nb", "\x00", "💥" * 900, "../%s/${x}", "<script>"])
async def test_odd_texts_are_reported_on_one_line(scene: Any, kind: str, text: str) -> None:
    spec = {"pciDevices": [{**T4, "vGPUProfile": text}], "hardwareVersion": text}
    causes = await scene.causes(scene.obj(kind, spec))
    assert len(causes) == 2
    assert all(words.isprintable() for _, words in causes)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_stored_before_there_were_rules_can_be_seen_through_to_its_end(
    scene: Any, kind: str
) -> None:
    odd = {"pciDevices": [{"deviceId": -1}, *[VGPU] * 150], "hardwareVersion": "vmx-1x"}
    old = scene.obj(kind, odd)
    assert await scene.causes(old)
    # Finalizers, labels, and what CAPV's controllers write.
    assert await scene.causes(scene.obj(kind, odd, finalizers=["a"], labels={"a": "b"}), old) == []
    for spec in ({"providerID": "vsphere://1"}, {"powerOffMode": "soft"}):
        if kind == "VSphereMachine":
            assert await scene.causes(scene.obj(kind, {**odd, **spec}), old) == []
    going = scene.obj(kind, {"pciDevices": []}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert await scene.causes(going, old) == []
    assert await scene.causes(None, old) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("spec", "passes"),
    [
        ({"pciDevices": [T4], "hardwareVersion": "vmx-15"}, True),
        ({"pciDevices": [{**VGPU, "customLabel": "gold"}]}, True),
        ({"pciDevices": [T4], "nestedHV": True, "hardwareVersion": "vmx-15"}, False),
    ],
)
async def test_what_controllers_make_of_older_objects_is_not_held_up(
    scene: Any, kind: str, spec: Any, passes: bool
) -> None:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Any", "name": "m", "uid": "1"}
    owned = scene.obj(kind, spec, ownerReferences=[owner])
    assert await scene.causes(scene.obj(kind, spec))
    if passes:
        assert len(await scene.warnings(owned)) == 1
    else:
        assert len(await scene.causes(owned)) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_devices_do_not_change(scene: Any, kind: str) -> None:
    old = scene.obj(kind, {"pciDevices": [VGPU]})
    [(path, words)] = await scene.causes(scene.obj(kind, {"pciDevices": [VGPU, VGPU]}), old)
    assert path == BASE[kind]
    if kind == "VSphereMachineTemplate":
        assert words == (
            'Invalid value: "pciDevices changed": VSphereMachineTemplate spec.template.spec field '
            "is immutable. Please create a new resource instead."
        )
    else:
        assert words == "Forbidden: cannot be modified; pciDevices changed"
        assert scene.answer["status"]["details"]["causes"][0]["reason"] == "FieldValueForbidden"


async def test_cluster_api_may_try_out_a_changed_template(scene: Any) -> None:
    kind = "VSphereMachineTemplate"
    old = scene.obj(kind, {"pciDevices": [VGPU]})
    marked = {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}}
    new = scene.obj(kind, {"pciDevices": [T4]}, **marked)
    assert await scene.causes(new, old, dryRun=True) == []
    assert await scene.causes(new, old)
    assert await scene.causes(scene.obj(kind, {"pciDevices": [T4]}), old, dryRun=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spec", [None, {"template": []}, {"template": {"spec": 7}}, {"pciDevices": {"a": 1}}]
)
async def test_what_is_none_of_its_kind_breaks_nothing(scene: Any, kind: str, spec: Any) -> None:
    raw = scene.raw(kind, spec)
    await scene.mutated(raw)
    await scene.causes(raw)
    await scene.causes(raw, scene.obj(kind))
