"""A layout's status: the sum of its entries, from any agent, and what it asks of others."""

from __future__ import annotations

import itertools

import pytest

from laneway.api import (
    Condition,
    LayoutGpu,
    LayoutGpuSelector,
    MigConfiguration,
    MigConfigurationSpec,
    MigProfileRequest,
    ObjectMeta,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    VGPULayout,
    VGPULayoutSpec,
    VGPULayoutStatus,
)
from laneway.controllers.devices.layout import (
    gpu_patch,
    handed_over,
    mig_patch,
    objects,
    summed,
    vgpu_patch,
)
from laneway.controllers.layouts.status import field_manager
from laneway.core.layout.desired import DesiredLayout, desired_of
from laneway.core.layout.objects import Answer, Found
from support.looks import GPU, pf, situation

GENERATION = 3


def entry(name: str, state: str, message: str = "", generation: int = GENERATION) -> LayoutGpu:
    return LayoutGpu(name=name, state=state, message=message, observed_generation=generation)


def layout(*entries: LayoutGpu, names: tuple[str, ...] = ()) -> VGPULayout:
    return VGPULayout(
        metadata=ObjectMeta(name="all", generation=GENERATION),
        spec=VGPULayoutSpec(gpu_selector=LayoutGpuSelector(names=names)),
        status=VGPULayoutStatus(gpus=entries),
    )


def reported(*entries: LayoutGpu, names: tuple[str, ...] = ()) -> tuple[str, str, str]:
    condition, summary = summed(layout(*entries, names=names))
    return condition.reason, condition.status, summary


# -------------------------------------------------------------------------------------- the sum


def test_all_done_is_ready() -> None:
    assert reported(entry("a", "Done"), entry("b", "Done")) == ("Done", "True", "2 of 2")


def test_the_worst_that_was_answered_is_reported() -> None:
    done, busy = entry("a", "Done"), entry("b", "InProgress", "Waiting.")
    refused, planned = entry("c", "Refused", "No room."), entry("d", "Planned")
    assert reported(done, busy) == ("InProgress", "False", "1 of 2")
    assert reported(done, busy, refused) == ("Refused", "False", "1 of 3")
    assert reported(planned) == ("DryRun", "False", "0 of 1")
    assert reported() == ("NoGpuSelected", "False", "0 of 0")
    assert "c: No room." in summed(layout(done, busy, refused))[0].message


def test_a_gpu_without_instances_waits_for_them() -> None:
    """The layout makes them; their lack is not for its reader to mend."""
    gpu = SRIOVGPUDevice(
        metadata=ObjectMeta(name="gpu", generation=1),
        spec=SRIOVGPUDeviceSpec(enabled=True, mode="MIGBacked"),
        status=SRIOVGPUDeviceStatus(conditions=answered("NoGpuInstances")),
    )
    assert objects("node1", gpu, None, ()).refused == ()


def test_an_answer_to_an_earlier_desired_state_is_none() -> None:
    assert reported(entry("a", "Done"), entry("b", "Done", generation=2)) == (
        "AgentNotReporting",
        "False",
        "1 of 2",
    )


def test_a_named_gpu_without_an_entry_is_missed() -> None:
    assert reported(entry("a", "Done"), names=("a", "b")) == (
        "AgentNotReporting",
        "False",
        "1 of 2",
    )
    assert "b" in summed(layout(entry("a", "Done"), names=("a", "b")))[0].message


def test_the_sum_is_the_same_in_whatever_order_entries_are_stored() -> None:
    entries = [
        entry("a", "Refused", "Held."),
        entry("b", "Refused", "Unknown."),
        entry("c", "Done", generation=1),
        entry("d", "InProgress"),
    ]
    sums = {summed(layout(*some))[0].message for some in itertools.permutations(entries)}
    assert len(sums) == 1


def test_many_gpus_make_no_long_message() -> None:
    many = [entry(f"gpu-{n:03}", "Refused", "x" * 100) for n in range(200)]
    assert len(summed(layout(*many))[0].message) < 600


def test_every_node_applies_under_a_name_of_its_own_that_the_api_takes() -> None:
    nodes = ["node1", "n" * 250, "n" * 249 + "m"]
    managers = {field_manager(node) for node in nodes}
    assert len(managers) == 3
    assert "laneway-node1" in managers
    assert all(len(name) <= 128 for name in managers)


# ----------------------------------------------------------------------------- the lower objects


def answered(reason: str, *, generation: int = 1, status: str = "False") -> list[Condition]:
    return [
        Condition(
            type="Ready",
            status=status,  # type: ignore[arg-type]
            reason=reason,
            message="why",
            observed_generation=generation,
        )
    ]


def vgpu(name: str, address: str, reason: str = "", **more: object) -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name=name, generation=1),
        spec=VGPUDeviceSpec(address=address, node_name="node1", **more),  # type: ignore[arg-type]
        status=VGPUDeviceStatus(conditions=answered(reason) if reason else []),
    )


def test_functions_come_in_numeric_order_and_only_those_that_are_meant() -> None:
    stored = [
        vgpu("node1-000008010", "0000:08:01.0", enabled=True, vgpu_type_name="Q"),
        vgpu("node1-000008007", "0000:08:00.7", vgpu_type_name="Q"),
        vgpu("node1-000008006", "0000:08:00.7", enabled=True, vgpu_type_name="Q"),
        vgpu("node1-000008005", "no address", enabled=True),
    ]
    found = objects("node1", None, None, stored).vgpus
    assert [(one.name, one.asks) for one in found] == [
        ("node1-000008007", None),
        ("node1-000008010", "Q"),
    ]


def test_refusals_of_the_present_desired_state_are_reported_and_the_gpus_first() -> None:
    gpu = SRIOVGPUDevice(
        metadata=ObjectMeta(name="gpu", generation=1),
        spec=SRIOVGPUDeviceSpec(enabled=True),
        status=SRIOVGPUDeviceStatus(conditions=answered("ToolMissing")),
    )
    stored = [
        vgpu("node1-000008007", "0000:08:00.7", "ProfileExhausted"),
        vgpu("node1-000008006", "0000:08:00.6", "InProgress"),
        vgpu("node1-000008005", "0000:08:00.5", "GpuNotReady"),
    ]
    assert objects("node1", gpu, None, stored).refused == (
        Answer("ToolMissing", "why", "SRIOVGPUDevice gpu"),
        Answer("ProfileExhausted", "why", "VGPUDevice node1-000008007"),
    )


def test_an_answer_to_an_earlier_desired_state_of_a_lower_object_is_none() -> None:
    old = VGPUDevice(
        metadata=ObjectMeta(name="node1-000008007", generation=2),
        spec=VGPUDeviceSpec(address="0000:08:00.7"),
        status=VGPUDeviceStatus(conditions=answered("ProfileExhausted")),
    )
    assert objects("node1", None, None, [old]).refused == ()


def test_a_vgpu_is_enabled_with_its_profile_or_disabled() -> None:
    enabled = {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}
    assert vgpu_patch("NVIDIA A2-4Q") == enabled
    assert vgpu_patch(None) == {"enabled": False}
    assert gpu_patch((True, "MixedSize")) == {"enabled": True, "mode": "MixedSize"}


def test_gpu_instances_are_requested_in_addition_to_the_listed_profiles() -> None:
    stored = MigConfiguration(
        spec=MigConfigurationSpec(
            profile_spec=[
                MigProfileRequest(name="MIG 1g.5gb", id=19, requested=4),
                MigProfileRequest(name="MIG 2g.10gb", id=14),
            ]
        )
    )
    assert mig_patch(stored, (False, {}), {}) == {"enabled": False}
    patch = mig_patch(stored, (True, {"2g.10gb": 1, "3g.20gb": 1}), {"3g.20gb": 9})
    assert patch == {
        "enabled": True,
        "profileSpec": [
            {"name": "MIG 1g.5gb", "id": 19, "requested": 0},
            {"name": "MIG 2g.10gb", "id": 14, "requested": 1},
            {"name": "MIG 3g.20gb", "id": 9, "requested": 1},
        ],
    }


@pytest.mark.parametrize(
    ("mode", "vfs", "words"),
    [
        ("SameSize", True, "the vGPUs are configured"),
        ("SameSize", False, "the GPU has the requested functions and mode"),
        ("Passthrough", True, "the GPU has the requested functions and mode"),
    ],
)
def test_what_is_handed_over_waits_for_its_gpu_and_then_for_its_vgpus(
    mode: str, vfs: bool, words: str
) -> None:
    desired = desired_of(GPU, mode, ())
    assert isinstance(desired, DesiredLayout)
    found = Found(pf(), situation().inventory.vgpus if vfs else (), None)
    assert words in handed_over(entry("gpu", ""), desired, found).message
