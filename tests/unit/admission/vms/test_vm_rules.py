"""What is refused of the devices of VMs, and what is not."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from laneway.api import Condition
from laneway.kube.resource import Key

GPU = "nvidia.com/GA100_A100"


def words(verdict: Any) -> str:
    return " ".join(one.words for one in verdict.refusals)


def test_a_vm_gets_a_device_that_its_user_has_claimed(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    verdict = cluster.judge(cluster.vm(gpu))
    assert verdict.allowed
    assert verdict.warnings == ()


def test_a_vm_without_devices_is_not_judged_here(cluster: Any) -> None:
    assert cluster.judge(cluster.vm()).allowed
    assert cluster.asked == []


def test_an_unknown_resource_of_gpus_is_refused_too(cluster: Any) -> None:
    raw = cluster.vm(gpus=[{"name": "g", "deviceName": "nvidia.com/NONE"}])
    assert cluster.reasons(raw) == ["ResourceNotFound"]


def test_a_name_that_matches_nothing_is_free_text(cluster: Any) -> None:
    cluster.vgpu("n1", "0000:08:00.4")
    raw = cluster.vm(("provisioned", "nvidia.com/NVIDIA_A2-2Q"))
    assert cluster.judge(raw).allowed


def test_devices_of_two_nodes_are_refused(cluster: Any) -> None:
    here, there = cluster.pci("n1", "0000:08:00.0"), cluster.pci("n2", "0000:08:00.0")
    verdict = cluster.judge(cluster.vm(here, there))
    assert [one.reason for one in verdict.refusals] == ["DevicesOnMultipleNodes"]
    assert f"device pcidevice/{there} is not on the same node in" in words(verdict)
    assert "VirtualMachine.Spec.Template.Spec.Domain.Devices.HostDevices" in words(verdict)


def test_a_usb_device_of_another_node_is_reported_as_one(cluster: Any) -> None:
    here, there = cluster.pci("n1", "0000:08:00.0"), cluster.usb("n2", 11)
    verdict = cluster.judge(cluster.vm(here, there))
    assert f"device usbdevice/{there} is not on the same node in" in words(verdict)


def test_a_device_of_a_node_that_the_selector_leaves_out(cluster: Any) -> None:
    cluster.node("n1", zone="a")
    gpu = cluster.pci("n1", "0000:08:00.0")
    assert cluster.judge(cluster.vm(gpu, selector={"zone": "a"})).allowed
    verdict = cluster.judge(cluster.vm(gpu, selector={"zone": "b"}))
    assert [one.reason for one in verdict.refusals] == ["NodeSelectorMismatch"]
    assert "zone=b" in words(verdict)


def test_the_same_device_twice_though_not_side_by_side(cluster: Any) -> None:
    """Row 71: only neighbours were found."""
    first, other = cluster.pci("n1", "0000:08:00.0"), cluster.pci("n1", "0000:09:00.0")
    assert cluster.reasons(cluster.vm(first, other, first)) == ["DuplicateDeviceName"]


def test_one_name_in_both_lists(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    raw = cluster.mutated(cluster.vm(gpu, gpus=[{"name": gpu, "deviceName": GPU}]))
    assert cluster.reasons(raw) == ["DuplicateDeviceName"]


@pytest.mark.parametrize(
    ("asked", "closest"),
    [
        ("nvidia.com/NVIDIA_A2-2q", "nvidia.com/NVIDIA_A2-2Q"),
        ("nvidia.com/A2-2Q", "nvidia.com/NVIDIA_A2-2Q"),
        ("NVIDIA_A2-2Q", "nvidia.com/NVIDIA_A2-2Q"),
        ("nvidia.com/GA100A100", GPU),
        ("somewhere.org/else", ""),
    ],
)
def test_a_resource_that_there_is_not_is_reported_with_those_that_there_are(
    cluster: Any, asked: str, closest: str
) -> None:
    cluster.vgpu("n1", "0000:04:00.0")
    cluster.pci("n1", "0000:08:00.0")
    said = words(cluster.judge(cluster.vm(("g", asked))))
    assert said.startswith(f"No device has the resource '{asked}', which device 'g' of")
    assert (f"Closest: {closest}." in said) == bool(closest)
    assert ("Closest" in said) == bool(closest)


def test_a_device_that_is_not_claimed(cluster: Any) -> None:
    """Row 84: a VM waited for ever."""
    gpu = cluster.pci("n1", "0000:08:00.0", claimed=None)
    verdict = cluster.judge(cluster.vm(gpu))
    assert [one.reason for one in verdict.refusals] == ["DeviceNotClaimed"]
    assert f"pcidevice/{gpu} is not claimed" in words(verdict)
    usb = cluster.usb("n1", 11, claimed=None)
    assert "USBDeviceClaim" in words(cluster.judge(cluster.vm(usb)))


def test_a_claim_that_is_not_ready_says_why(cluster: Any) -> None:
    why = Condition(type="Ready", status="False", reason="VfioMissing", message="No vfio-pci.")
    gpu = cluster.pci("n1", "0000:08:00.0", ready=why)
    verdict = cluster.judge(cluster.vm(gpu))
    assert [one.reason for one in verdict.refusals] == ["DeviceNotReady"]
    assert "VfioMissing" in words(verdict)
    assert "No vfio-pci." in words(verdict)


def test_a_stopped_vm_is_only_warned_about_what_is_to_be_waited_for(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", ready=False)
    verdict = cluster.judge(cluster.vm(gpu, strategy="Halted"))
    assert verdict.allowed
    assert "The kubelet is away." in verdict.warnings[0]


def disabled(cluster: Any) -> Any:
    name = cluster.vgpu("n1", "0000:08:00.5", enabled=False)
    return {"name": name, "deviceName": "nvidia.com/NVIDIA_A2-2Q"}


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (lambda cluster: cluster.pci("n1", "0000:08:00.0", claimed=None), "DeviceNotClaimed"),
        (disabled, "VgpuDisabled"),
    ],
)
def test_a_vm_may_be_stored_before_its_claim_and_not_started(
    cluster: Any, device: Any, reason: str
) -> None:
    """An installer that applies a folder of files knows no order."""
    stored = cluster.vm(device(cluster), strategy="Halted")
    verdict = cluster.judge(stored)
    assert verdict.allowed
    assert verdict.warnings[0].startswith("The VM cannot start now: ")
    started = copy.deepcopy(stored)
    started["spec"]["runStrategy"] = "Always"
    assert cluster.reasons(started, stored) == [reason]
    # Whatever else is written of it, and stopping it, is not a start.
    relabelled = copy.deepcopy(started)
    relabelled["metadata"]["labels"] = {"a": "b"}
    assert cluster.judge(relabelled, started).allowed
    assert cluster.judge(stored, started).allowed


def test_what_a_start_has_to_wait_for_is_a_warning(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.runs(cluster.vm(gpu, name="other"), "n1")
    stored, started = cluster.vm(("any", GPU), strategy="Halted"), cluster.vm(("any", GPU))
    verdict = cluster.judge(started, stored)
    assert verdict.allowed
    assert verdict.warnings[0].startswith(f"The VM waits: {GPU}: 1 requested")
    gone = cluster.vm(("any", "nvidia.com/GONE"))
    assert cluster.judge(gone, {**gone, "spec": {**gone["spec"], "runStrategy": "Halted"}}).allowed


def test_a_claim_that_is_being_released(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.claim("n1", "0000:08:00.0", GPU, user="alice", leaving=True)
    assert "(Releasing)" in words(cluster.judge(cluster.vm(gpu)))


@pytest.mark.parametrize("framework", ["vendor-vfio", "mdev"])
def test_a_vgpu_that_is_not_enabled(cluster: Any, framework: str) -> None:
    off = cluster.vgpu("n1", "0000:08:00.5", enabled=False, framework=framework)
    raw = cluster.vm(gpus=[{"name": off, "deviceName": "nvidia.com/NVIDIA_A2-2Q"}])
    assert cluster.reasons(raw) == ["VgpuDisabled"]


def test_a_vgpu_that_is_not_there_yet_says_why(cluster: Any) -> None:
    vgpu = cluster.vgpu("n1", "0000:08:00.5", ready=False)
    cluster.world.claims.drop(Key("", vgpu))
    verdict = cluster.judge(cluster.vm((vgpu, "nvidia.com/NVIDIA_A2-2Q")))
    assert [one.reason for one in verdict.refusals] == ["DeviceNotReady"]
    assert "The kubelet is away." in words(verdict)


def test_a_mediated_vgpu_needs_no_claim(cluster: Any) -> None:
    vgpu = cluster.vgpu("n1", "0000:08:00.4", framework="mdev")
    raw = cluster.vm(gpus=[{"name": vgpu, "deviceName": "nvidia.com/NVIDIA_A2-2Q"}])
    assert cluster.judge(raw).allowed


def test_a_mediated_vgpu_that_is_going(cluster: Any) -> None:
    vgpu = cluster.vgpu("n1", "0000:08:00.4", framework="mdev")
    there = cluster.world.vgpus.get(vgpu)
    leaving = msgspec.structs.replace(there.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    cluster.world.vgpus.put(msgspec.structs.replace(there, metadata=leaving))
    raw = cluster.vm(gpus=[{"name": vgpu, "deviceName": "nvidia.com/NVIDIA_A2-2Q"}])
    assert "(Releasing)" in words(cluster.judge(raw))


def test_what_another_vm_has_cannot_be_had(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.runs(cluster.vm(gpu, name="other"), "n1")
    verdict = cluster.judge(cluster.vm(gpu))
    assert [one.reason for one in verdict.refusals] == ["InsufficientDevices"]
    assert "default/other" in words(verdict)
    stopped = cluster.judge(cluster.vm(gpu, strategy="Halted"))
    assert stopped.allowed
    assert "default/other" in " ".join(stopped.warnings)


def test_what_is_kept_for_a_stopped_vm_cannot_be_had(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.there(cluster.vm(gpu, name="other", strategy="Halted"))
    verdict = cluster.judge(cluster.vm(gpu))
    assert [one.reason for one in verdict.refusals] == ["InsufficientDevices"]
    assert "reserved by the stopped VM default/other" in words(verdict)


def test_a_named_device_that_is_kept_for_another_is_reported(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.pci("n1", "0000:09:00.0")
    record = f'{{"hostdevices":{{"{GPU}":["{gpu}"]}}}}'
    noted = {"harvesterhci.io/deviceAllocationDetails": record}
    cluster.there(cluster.vm(gpu, name="other", strategy="Halted", annotations=noted))
    verdict = cluster.judge(cluster.vm(gpu))
    assert verdict.allowed
    assert f"default/other is stopped and reserves pcidevice/{gpu}" in verdict.warnings[0]


def test_a_named_device_puts_the_others_on_its_node(cluster: Any) -> None:
    usb = cluster.usb("n1", 11)
    cluster.pci("n2", "0000:08:00.0")
    assert cluster.reasons(cluster.vm(usb, ("any", GPU))) == ["InsufficientDevices"]


def test_room_is_looked_for_where_the_vm_may_be(cluster: Any) -> None:
    cluster.node("n1", zone="a")
    cluster.node("n2", zone="b")
    cluster.pci("n1", "0000:08:00.0")
    assert cluster.judge(cluster.vm(("any", GPU), selector={"zone": "a"})).allowed
    assert cluster.reasons(cluster.vm(("any", GPU), selector={"zone": "b"})) == [
        "InsufficientDevices"
    ]


def test_warnings_name_neither_the_vm_itself_nor_those_that_only_name_a_device(
    cluster: Any,
) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    for bus in (9, 7):
        cluster.pci("n1", f"0000:0{bus}:00.0")
    cluster.there(cluster.vm(gpu, name="other", strategy="Halted"))
    record = f'{{"hostdevices":{{"{GPU}":["{gpu}"]}}}}'
    noted = {"harvesterhci.io/deviceAllocationDetails": record}
    old = cluster.vm((gpu, GPU), annotations=noted)
    cluster.runs(old, "n1")
    usb = cluster.usb("n1", 11)
    assert (
        cluster.judge(cluster.vm((gpu, GPU), name="third"), None)
        .warnings[0]
        .startswith(f"VM default/vm uses pcidevice/{gpu}")
    )
    renamed = cluster.vm({"name": gpu, "deviceName": GPU, "requestName": "r"}, usb)
    assert cluster.judge(renamed, old).warnings == ()


def test_a_vm_does_not_stand_in_its_own_way(cluster: Any) -> None:
    gpu, other = cluster.pci("n1", "0000:08:00.0"), cluster.pci("n1", "0000:09:00.0")
    old = cluster.vm(gpu)
    cluster.runs(old, "n1")
    assert cluster.judge(cluster.vm(gpu, other), old).allowed


def test_without_a_ledger_nothing_is_said_of_room(cluster: Any) -> None:
    cluster.knows_ledger = False
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.runs(cluster.vm(gpu, name="other"), "n1")
    assert cluster.judge(cluster.vm(gpu)).allowed


def test_a_vm_whose_device_is_gone_can_be_stopped_edited_and_deleted(cluster: Any) -> None:
    """Row 83."""
    cluster.node("n1")
    gone = cluster.vm(("n1-000008000", GPU))
    stopped = cluster.vm(("n1-000008000", GPU), strategy="Halted")
    assert cluster.judge(stopped, gone).allowed
    assert cluster.judge(gone, stopped).allowed
    assert cluster.judge(gone, deleted=True).allowed
    leaving = cluster.vm(("x", "nvidia.com/NONE"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cluster.judge(leaving, gone).allowed


def test_taking_a_device_away_always_works(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob", ready=False)
    old = cluster.vm(("n1-000009000", "nvidia.com/NONE"), gpu, (gpu, GPU))
    assert cluster.judge(cluster.vm(("n1-000009000", "nvidia.com/NONE"), gpu), old).allowed
    assert cluster.judge(cluster.vm(gpu), old).allowed
    assert cluster.judge(cluster.vm(), old).allowed


def test_only_what_is_added_is_held_against_an_edit(cluster: Any) -> None:
    cluster.vgpu("n1", "0000:08:00.4")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    cluster.pci("n1", "0000:0a:00.0", "nvidia.com/OTHER")
    old = cluster.vm(gpu)
    assert cluster.judge(cluster.vm(gpu, ("more", "nvidia.com/OTHER")), old).allowed


def test_a_name_that_belongs_to_a_device_of_another_resource(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.pci("n1", "0000:09:00.0", "nvidia.com/OTHER")
    verdict = cluster.judge(cluster.vm((gpu, "nvidia.com/OTHER")))
    assert verdict.allowed
    assert f"pcidevice/{gpu} has the resource {GPU}" in verdict.warnings[0]


def test_memory_that_is_overcommitted(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    few = cluster.vm(
        gpu, memory={"guest": "4Gi"}, resources={"requests": {"memory": "1.5Gi", "cpu": 2}}
    )
    enough = cluster.vm(gpu, memory={"guest": "4Gi"}, resources={"requests": {"memory": "4Gi"}})
    assert "memory request" in cluster.judge(few).warnings[0]
    assert cluster.judge(enough).warnings == ()


def test_a_vm_that_is_to_migrate(cluster: Any) -> None:
    raw = cluster.vm(cluster.pci("n1", "0000:08:00.0"))
    raw["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    assert "LiveMigrate" in cluster.judge(raw).warnings[0]


def test_a_warning_says_what_matters_before_it_is_cut(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.pci("n1", "0000:09:00.0", claimed="bob")
    cluster.runs(cluster.vm(gpu, name="other"), "n1")
    raw = cluster.vm(gpu, memory={"guest": "4Gi"}, resources={"requests": {"memory": "1Gi"}})
    raw["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    warnings = cluster.judge(raw, user="bob").warnings
    assert all(len(one) <= 256 for one in warnings)


def test_devices_of_resource_claims_are_the_schedulers_business(cluster: Any) -> None:
    entry = {"name": "g", "claimName": "c", "requestName": "r"}
    assert cluster.judge(cluster.vm(entry, gpus=[{**entry, "name": "h"}])).allowed


def test_a_vm_with_a_thousand_wrong_devices_gets_an_answer_of_bounded_size(
    cluster: Any,
) -> None:
    raw = cluster.vm(*((f"d{number}", f"x.com/{number}") for number in range(1000)))
    assert len(cluster.judge(raw).refusals) == 16


def test_what_is_known_of_a_pool_is_what_is_so_now(cluster: Any) -> None:
    raw = cluster.vm(("any", GPU))
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    assert cluster.reasons(raw) == ["ClaimedByOther"]
    cluster.claim("n1", "0000:08:00.0", GPU, user="alice")
    assert cluster.judge(raw).allowed
    cluster.world.claims.drop(Key("", gpu))
    assert cluster.reasons(raw) == ["ResourceNotFound"]
