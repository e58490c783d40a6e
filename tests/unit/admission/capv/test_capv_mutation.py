"""What is made right about machines on vSphere before they are judged."""

from __future__ import annotations

import copy
from typing import Any

import pytest

KINDS = ("VSphereMachine", "VSphereMachineTemplate", "VSphereVM")
T4 = {"deviceId": 7864, "vendorId": 4318}
PROPOSED = {"pcidevices": [T4], "vgpudevices": [{"profileName": "grid_t4-16q"}]}
RELEASED = [T4, {"vGPUProfile": "grid_t4-16q"}]


def spec_of(raw: Any) -> Any:
    spec = raw["spec"]
    return spec["template"]["spec"] if raw["kind"] == "VSphereMachineTemplate" else spec


@pytest.mark.parametrize("kind", KINDS)
async def test_the_proposals_spelling_becomes_the_released_one(scene: Any, kind: str) -> None:
    made = await scene.mutated(scene.obj(kind, PROPOSED))
    assert spec_of(made)["pciDevices"] == RELEASED
    assert not {"pcidevices", "vgpudevices"} & set(spec_of(made))
    assert await scene.causes(made) == []
    assert await scene.mutated(made) == made
    assert await scene.mutated(made, made) == made


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_file_can_be_applied_again(scene: Any, kind: str) -> None:
    stored = await scene.mutated(scene.obj(kind, PROPOSED))
    again = copy.deepcopy(stored)
    spec_of(again).update(PROPOSED)
    assert await scene.mutated(again, stored) == stored
    # Another desired state in the old spelling is a change, and no machine changes.
    spec_of(again)["vgpudevices"] = [{"profileName": "other"}]
    made = await scene.mutated(again, stored)
    assert await scene.causes(made, stored)


@pytest.mark.parametrize("kind", KINDS)
async def test_both_spellings_at_once_are_left_for_a_person(scene: Any, kind: str) -> None:
    raw = scene.obj(kind, {**PROPOSED, "pciDevices": RELEASED})
    made = await scene.mutated(raw)
    assert {**spec_of(made)} | PROPOSED == spec_of(made)
    causes = await scene.causes(made)
    assert [path.rpartition(".")[2] for path, _ in causes] == ["pcidevices", "vgpudevices"]


async def test_defaults_are_capvs(scene: Any) -> None:
    made = [spec_of(await scene.mutated(scene.obj(kind))) for kind in KINDS]
    assert [(one.get("datacenter"), one.get("os")) for one in made] == [
        ("*", None),
        (None, None),
        (None, "Linux"),
    ]
    said = await scene.mutated(scene.obj("VSphereMachine", {"datacenter": "DC0"}))
    assert said["spec"]["datacenter"] == "DC0"
    said = await scene.mutated(scene.obj("VSphereVM", {"os": "Windows"}))
    assert said["spec"]["os"] == "Windows"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_stored_without_defaults_stays_editable(scene: Any, kind: str) -> None:
    old = scene.obj(kind, PROPOSED)
    new = await scene.mutated(scene.obj(kind, PROPOSED, labels={"a": "b"}), old)
    assert await scene.causes(new, old) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_on_its_way_out_is_left_alone(scene: Any, kind: str) -> None:
    raw = scene.obj(kind, PROPOSED, deletionTimestamp="2026-01-01T00:00:00Z")
    assert await scene.mutated(raw, raw) == raw


@pytest.mark.parametrize("kind", KINDS)
async def test_ids_in_hexadecimal_are_answered_in_decimal(scene: Any, kind: str) -> None:
    raw = scene.obj(kind, {"pciDevices": [{"deviceId": "0x1EB8", "vendorId": "10de"}, T4]})
    made = await scene.mutated(raw)
    assert spec_of(made)["pciDevices"] == spec_of(raw)["pciDevices"]  # which the schema refuses
    base = "spec.template.spec" if kind == "VSphereMachineTemplate" else "spec"
    device, vendor = scene.answer["warnings"]
    assert device.startswith(f"{base}.pciDevices[0].deviceId: should be a PCI id")
    assert "write 7864, without quotes" in device
    assert "write 4318, without quotes" in vendor
    await scene.mutated(scene.obj(kind, {"pciDevices": [{"deviceId": "7864", "vendorId": 4318}]}))
    assert not scene.answer.get("warnings")
