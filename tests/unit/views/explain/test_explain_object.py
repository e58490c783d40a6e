"""The page about an object of the API, from its JSON."""

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.cli.page import text
from laneway.views.explain.object import Found, explain_object


def page_of(
    capsys: pytest.CaptureFixture[str], obj: dict[str, Any], *events: dict[str, Any]
) -> str:
    click.echo(text(explain_object(Found(obj, list(events)))), nl=False)
    return capsys.readouterr().out


def vgpu(enabled: bool, desired: str, found: str, **status: Any) -> dict[str, Any]:
    return {
        "kind": "VGPUDevice",
        "metadata": {"name": "node1-000008004", "generation": 3},
        "spec": {"enabled": enabled, "vGPUTypeName": desired},
        "status": {"configureVGPUTypeName": found, **status},
    }


def test_desired_state_that_is_not_met_is_said_with_the_condition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "ProfileNotOffered",
        "message": "The driver offers no such profile.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    out = page_of(
        capsys, vgpu(True, "NVIDIA A2-99Q", "", conditions=[condition], observedGeneration=2)
    )
    assert "Desired vGPU: NVIDIA A2-99Q; configured: none." in out
    assert "The agent has not acted on generation 3 yet; it has on 2." in out
    assert "Ready: False (ProfileNotOffered) since 2026-01-01T00:00:00Z" in out
    assert "    The driver offers no such profile." in out


def test_nested_fields_are_lines_and_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    gpus = [
        {"name": name, "message": "As requested.", "fits": {"NVIDIA A2-4Q": 2, "NVIDIA A2-8Q": 1}}
        for name in ("node1-000008000", "node2-000008000")
    ]
    spec = {
        "gpuSelector": {"names": ["node1-000008000", "node2-000008000"]},
        "vgpus": [{"profile": "NVIDIA A2-4Q", "count": 4}, {"profile": "NVIDIA A2-8Q", "count": 1}],
    }
    out = page_of(capsys, {"kind": "VGPULayout", "spec": spec, "status": {"gpus": gpus}})
    assert "{" not in out
    assert "  gpuSelector  names: node1-000008000, node2-000008000\n" in out
    assert "  vgpus        profile: NVIDIA A2-4Q, count: 4\n" in out
    assert "  gpus[1]  name: node2-000008000\n" in out
    assert "           fits: NVIDIA A2-4Q: 2, NVIDIA A2-8Q: 1\n" in out


def test_configured_vgpu_can_be_given_and_has_no_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = page_of(capsys, vgpu(True, "NVIDIA A2-4Q", "NVIDIA A2-4Q"))
    assert "Differs from" not in out
    assert "Yes, as nvidia.com/NVIDIA_A2-4Q." in out


def test_disabled_vgpu_with_a_kept_profile_name_is_as_desired(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = page_of(capsys, vgpu(False, "NVIDIA A2-4Q", "", availableTypes={"NVIDIA A2-4Q": "7"}))
    assert "Differs from" not in out
    assert "Not yet:" in out


def test_pci_device_answers_with_the_agents_reason_and_its_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    claimable = {
        "type": "Claimable",
        "status": "False",
        "reason": "NoIommuGroup",
        "message": "it has no IOMMU group",
    }
    obj = {"kind": "PCIDevice", "status": {"claimable": False, "conditions": [claimable]}}
    out = page_of(capsys, obj)
    assert "No: it has no IOMMU group" in out
    assert "intel_iommu=on" in out


def test_claim_answers_as_its_condition_does(capsys: pytest.CaptureFixture[str]) -> None:
    def page(**status: object) -> str:
        return page_of(capsys, {"kind": "PCIDeviceClaim", "status": status})

    held = {"type": "Ready", "status": "False", "message": "default/desktop has it."}
    assert "No: default/desktop has it." in page(conditions=[held])
    assert "Yes: default/desktop has it." in page(conditions=[{**held, "status": "True"}])
    assert "no agent has answered" in page()


ALLOCATION = {"namespace": "default", "pod": "virt-launcher-web-x", "virtualMachine": "web"}
HOLDER = "VM default/web (pod default/virt-launcher-web-x)"


def test_a_vgpu_that_a_vm_has_cannot_be_given_to_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = page_of(capsys, vgpu(True, "NVIDIA A2-4Q", "NVIDIA A2-4Q", allocation=ALLOCATION))
    assert f"No: {HOLDER} has it." in out
    assert f"held by {HOLDER}" in " ".join(out.partition("What to do")[0].split())


def test_a_device_tells_who_claimed_it_and_who_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    ready = {"type": "Ready", "status": "True", "message": "The device is on vfio-pci."}
    claim = {
        "kind": "PCIDeviceClaim",
        "spec": {"userName": "eve"},
        "status": {"conditions": [ready], "allocation": ALLOCATION},
    }
    claimable = {"type": "Claimable", "status": "True"}
    device = {"kind": "PCIDevice", "status": {"conditions": [claimable], "resourceName": "x.com/Y"}}

    click.echo(text(explain_object(Found(device, [], None, claim))), nl=False)
    held = capsys.readouterr().out
    alone = page_of(capsys, device)

    for out in (held, page_of(capsys, claim)):
        short = " ".join(out.partition("Object")[0].split())
        assert f"claimed by eve held by {HOLDER}" in short
        assert f"No: {HOLDER} has it." in out
    unused = {**claim, "status": {"conditions": [ready]}}
    click.echo(text(explain_object(Found(device, [], None, unused))), nl=False)
    claimed = capsys.readouterr().out

    assert "Yes: The device is on vfio-pci." in claimed
    assert "once claimed" not in claimed
    assert "claimed by none held by none" in " ".join(alone.split())
    assert "Yes, once claimed, as x.com/Y." in alone


def test_pci_device_of_another_controller_is_not_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "no agent has answered" in page_of(capsys, {"kind": "PCIDevice", "status": {}})


def test_sriov_differences(capsys: pytest.CaptureFixture[str]) -> None:
    nic = {"kind": "SRIOVNetworkDevice", "spec": {"numVFs": 4}, "status": {"vfAddresses": ["a"]}}
    assert "Desired virtual functions: 4; there are 1." in page_of(capsys, nic)
    gpu = {"kind": "SRIOVGPUDevice", "spec": {"enabled": True}, "status": {"vfAddresses": None}}
    assert "Desired: enabled; virtual functions: 0." in page_of(capsys, gpu)


def test_events_are_listed_oldest_first_with_their_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = {"lastTimestamp": "2026-01-01T00:00:00Z", "reason": "Configured", "message": "done"}
    second = {"lastTimestamp": "2026-01-02T00:00:00Z", "reason": "Failed", "count": 3}
    out = page_of(capsys, {"kind": "VGPUDevice"}, second, first)
    assert out.index("Configured") < out.index("Failed (3 times)")


def test_unknown_fields_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    obj = {"kind": "PCIDevice", "status": {"addresss": "typo", "nested": {"a": [1, {"b": None}]}}}
    out = page_of(capsys, obj)
    assert "addresss" in out
    assert "nested    a: 1, b:\n" in out


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_KINDS = ["PCIDevice", "VGPUDevice", "SRIOVGPUDevice", "SRIOVNetworkDevice", "USBDevice", "Other"]
_FIELDS = ["enabled", "numVFs", "vfAddresses", "conditions", "availableTypes", "claimable"]


@given(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(_KINDS) | _json},
        optional={
            "metadata": _json,
            "spec": st.dictionaries(st.sampled_from(_FIELDS), _json) | _json,
            "status": st.dictionaries(st.sampled_from(_FIELDS), _json) | _json,
        },
    ),
    st.lists(st.dictionaries(st.text(), _json, max_size=3), max_size=2),
)
def test_any_object_gets_a_page(obj: dict[str, Any], events: list[dict[str, Any]]) -> None:
    page = explain_object(Found(obj, events))
    assert all(isinstance(line, str) for section in page.sections for line in section.lines)


def test_an_unreadable_claim_is_not_reported_as_none() -> None:
    device = {"kind": "PCIDevice", "metadata": {"name": "node1-000017000"}}
    found = Found(device, [], unreadable=("pcideviceclaims",))

    shown = text(explain_object(found))

    assert "claimed by  not known" in shown
    assert "held by     not known" in shown
    assert "you may not list pcideviceclaims" in shown


@pytest.mark.parametrize(
    ("enabled", "next_step"), [(True, "once this is disabled"), (False, "laneway claim n1/0000:08")]
)
def test_how_to_give_a_whole_gpu_depends_on_its_state(
    enabled: bool, next_step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"address": "0000:08:00.0", "nodeName": "n1", "enabled": enabled}
    assert next_step in page_of(capsys, {"kind": "SRIOVGPUDevice", "spec": spec})
