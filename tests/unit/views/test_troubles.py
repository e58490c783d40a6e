"""What is told of objects and nodes that are not as they should be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from laneway.api import (
    Condition,
    CoreNode,
    HostPolicy,
    HostPolicyStatus,
    HostPreparation,
    HostPreparationSpec,
    HostPreparationStatus,
    HostRolloutState,
    MigConfiguration,
    ObjectMeta,
    PCIDevice,
    SRIOVGPUDevice,
    VGPUDevice,
)
from laneway.api.gpu import (
    MigConfigurationStatus,
    SRIOVGPUDeviceStatus,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.api.nodes import CoreNodeSpec, CoreNodeStatus
from laneway.api.pci import PCIDeviceStatus
from laneway.controllers.preparation.settings import digest
from laneway.views.troubles import Trouble, Weight, of_device, of_node, unreadable

META = ObjectMeta(name="x", generation=2)


def condition(kind: str, status: str, reason: str, message: str = "", seen: int = 2) -> Condition:
    return Condition(
        type=kind,
        status=status,  # type: ignore[arg-type]
        reason=reason,
        message=message,
        observed_generation=seen,
    )


def vgpu(*conditions: Condition, deleted: str | None = None) -> VGPUDevice:
    meta = ObjectMeta(name="x", generation=2, deletion_timestamp=deleted)
    spec, status = VGPUDeviceSpec(enabled=True), VGPUDeviceStatus(conditions=conditions)
    return VGPUDevice(metadata=meta, spec=spec, status=status)


READY = condition("Ready", "True", "Configured")


@pytest.mark.parametrize(
    ("device", "weight", "reason"),
    [
        (vgpu(condition("Ready", "False", "WriteFailed")), Weight.FAILED, "WriteFailed"),
        (vgpu(condition("Ready", "False", "InProgress")), Weight.WORKING, "InProgress"),
        (vgpu(condition("Ready", "Unknown", "Unseen")), Weight.WORKING, "Unseen"),
        (vgpu(condition("Ready", "True", "Old", seen=1)), Weight.WORKING, "NotAnswered"),
        (vgpu(), Weight.WORKING, "NotAnswered"),
        (vgpu(READY, condition("Advertised", "False", "Gone", "why")), Weight.DEGRADED, "Gone"),
        (vgpu(READY, deleted="2026-01-01T00:00:00Z"), Weight.WORKING, "Deletion"),
    ],
)
def test_the_worst_that_conditions_say_is_told(
    device: VGPUDevice, weight: Weight, reason: str
) -> None:
    found = of_device(device)
    assert found is not None
    assert (found.weight, found.reason) == (weight, reason)


def test_nothing_is_wrong_with_what_is_as_desired_or_only_observed() -> None:
    assert of_device(vgpu(READY)) is None
    next_step = condition("Ready", "False", "NoGpuInstances")
    gpu = SRIOVGPUDevice(metadata=META, status=SRIOVGPUDeviceStatus(conditions=[next_step]))
    assert of_device(gpu) is None
    seen = [condition("Ready", "True", "Observed"), condition("Claimable", "False", "Bridge", "b")]
    bridge = PCIDevice(metadata=META, status=PCIDeviceStatus(conditions=seen))
    assert of_device(bridge) is None


def test_a_function_that_is_to_have_no_vgpu_has_nothing_to_offer() -> None:
    conditions = [READY, condition("Advertised", "False", "NotConfigured", "no vGPU")]
    disabled = VGPUDevice(metadata=META, status=VGPUDeviceStatus(conditions=conditions))

    assert of_device(disabled) is None


@pytest.mark.parametrize(
    ("reason", "told"),
    [("NodeFailed", True), ("InvalidPolicy", True), ("InProgress", False), ("Paused", False)],
)
def test_a_policy_is_told_where_it_does_not_go_on_by_itself(reason: str, told: bool) -> None:
    status = HostPolicyStatus(conditions=[condition("Ready", "False", reason, "Why.")])
    found = of_device(HostPolicy(metadata=META, status=status))
    assert found == (Trouble(Weight.FAILED, reason, "Why.") if told else None)


def test_a_node_whose_preparation_failed_is_told_by_the_manager_or_its_agent() -> None:
    """The agent's own condition does not know of a reboot from which it has not come back."""
    spec = HostPreparationSpec(policies=["all"], rollout=HostRolloutState(stage="RebootPending"))
    status = HostPreparationStatus(stage="Staged", settings=digest(spec))
    assert of_device(HostPreparation(spec=spec, status=status)) is None

    away = replace(spec, rollout=HostRolloutState(stage="Failed", message="It is not back."))
    found = of_device(HostPreparation(spec=away, status=status))
    assert found == Trouble(Weight.FAILED, "Failed", "It is not back.")

    status = replace(status, stage="Failed", message="A file differs.")
    alone = replace(spec, rollout=HostRolloutState())
    found = of_device(HostPreparation(spec=alone, status=status))
    assert found == Trouble(Weight.FAILED, "Failed", "A file differs.")


def test_a_quarantined_device_has_failed_and_mig_out_of_sync_says_what_differs() -> None:
    reset = condition("Claimable", "False", "DeviceQuarantined", "Its reset failed.")
    found = of_device(PCIDevice(metadata=META, status=PCIDeviceStatus(conditions=[reset])))
    assert found is not None
    assert (found.weight, found.message) == (Weight.FAILED, "Its reset failed.")
    status = MigConfigurationStatus(conditions=[READY], status="out-of-sync", message="1g too many")
    found = of_device(MigConfiguration(metadata=META, status=status))
    assert found is not None
    assert (found.weight, found.message) == (Weight.DEGRADED, "1g too many")


def node(ready: str = "True", *, cordoned: bool = False) -> CoreNode:
    status = CoreNodeStatus(conditions=[condition("Ready", ready, "R", "the kubelet stopped")])
    return CoreNode(metadata=META, spec=CoreNodeSpec(unschedulable=cordoned), status=status)


@pytest.mark.parametrize(
    ("found", "agent", "reasons"),
    [
        (node(), True, []),
        (node(), False, [(Weight.FAILED, "NoAgent")]),
        (node("False"), True, [(Weight.FAILED, "NodeClosed")]),
        (node("Unknown"), False, [(Weight.FAILED, "NodeClosed"), (Weight.FAILED, "NoAgent")]),
        (node(cordoned=True), True, [(Weight.NOTED, "NodeClosed")]),
        (None, False, [(Weight.FAILED, "NodeNotFound")]),
    ],
)
def test_a_node_with_gpus_needs_a_kubelet_and_an_agent(
    found: CoreNode | None, agent: bool, reasons: list[tuple[Weight, str]]
) -> None:
    told = list(of_node(found, agent=agent, devices=True))
    assert [(one.weight, one.reason) for one in told] == reasons


def test_a_node_without_gpus_needs_no_agent() -> None:
    assert list(of_node(node(), agent=False, devices=False)) == []


def test_what_cannot_be_read_says_why_and_what_to_do() -> None:
    found = unreadable("status.mode: expected str")
    assert found.weight is Weight.FAILED
    assert found.message.endswith("status.mode: expected str. Correct or delete it.")
