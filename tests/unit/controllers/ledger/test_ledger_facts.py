"""What objects mean for the ledger: devices, VMs, pods and nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from laneway.api import CoreNode, ObjectMeta, PCIDeviceClaim, USBDeviceClaim, decode
from laneway.controllers.cluster.caches import Vgpu
from laneway.controllers.ledger import demands, devices, nodes
from laneway.controllers.ledger.objects import PODS, Pod, PodSpec, asks
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, Phase
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance

RESOURCE = "nvidia.com/NVIDIA_A2-2Q"
READY = [{"type": "Advertised", "status": "True"}]


def claim(**status: Any) -> PCIDeviceClaim:
    meta = status.pop("metadata", {})
    return decode(
        PCIDeviceClaim,
        {
            "metadata": {"name": "n1-000008000", **meta},
            "spec": {"address": "0000:08:00.0", "nodeName": "n1"},
            "status": {"resourceName": "nvidia.com/L4", "conditions": READY, **status},
        },
    )


def vgpu(**status: Any) -> Vgpu:
    reported = {
        "vGPUStatus": "vGPUConfigured",
        "configureVGPUTypeName": "NVIDIA A2-2Q",
        "framework": "mdev",
        "conditions": READY,
    }
    return decode(
        Vgpu,
        {
            "metadata": {"name": "n1-000008004"},
            "spec": {"nodeName": "n1"},
            "status": {**reported, **status},
        },
    )


@pytest.mark.parametrize(
    ("said", "migratable"),
    [
        ([{"type": "LiveMigratable", "status": "True"}], True),
        ([{"type": "LiveMigratable", "status": "False"}], False),
        ([{"type": "LiveMigratable", "status": "Unknown"}], None),
        ([{"type": "Ready", "status": "True"}], None),
    ],
)
def test_whether_a_vm_can_be_migrated_is_what_kubevirt_says(
    said: list[Any], migratable: bool | None
) -> None:
    running = {"spec": {"evictionStrategy": "None"}, "status": {"conditions": said}}
    found = demands.of_vm(None, decode(VirtualMachineInstance, running), lambda _: "")
    assert found is not None
    assert found.migratable is migratable


def test_a_claim_with_a_resource_is_a_device() -> None:
    assert devices.of_claim(claim()) == DeviceFact("n1", "nvidia.com/L4", "n1-000008000")
    assert devices.of_claim(claim(resourceName="")) is None
    assert devices.of_claim(PCIDeviceClaim(metadata=ObjectMeta(name="x"))) is None


def test_who_has_it_is_the_vm_or_else_the_pod() -> None:
    vm = {"namespace": "d", "pod": "virt-launcher-a-x", "virtualMachine": "a"}
    found = devices.of_claim(claim(allocation=vm))
    assert found is not None
    assert found.owner == Consumer(ConsumerKind.VM, "d", "a")
    found = devices.of_claim(claim(allocation={"namespace": "d", "pod": "train"}))
    assert found is not None
    assert found.owner == Consumer(ConsumerKind.POD, "d", "train")


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        ([], "the agent has not reported that the kubelet advertises it"),
        (
            [{"type": "Advertised", "status": "False", "reason": "Gone", "message": "It is off."}],
            "It is off",
        ),
        ([{"type": "Advertised", "status": "Unknown", "reason": "NoKubelet"}], "NoKubelet"),
        (READY, ""),
    ],
)
def test_what_the_kubelet_does_not_allocate_is_unhealthy(conditions: Any, why: str) -> None:
    found = devices.of_claim(claim(conditions=conditions))
    assert found is not None
    assert found.unhealthy == why


def test_a_claim_that_is_being_deleted_counts_while_the_device_has_a_holder() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert devices.of_claim(claim(metadata=leaving)) is None
    held = devices.of_claim(claim(metadata=leaving, allocation={"namespace": "d", "pod": "p"}))
    assert held is not None
    assert held.unhealthy == "it is being released"


def test_only_a_mediated_vgpu_is_a_device_without_a_claim() -> None:
    assert devices.of_vgpu(vgpu()) == DeviceFact("n1", RESOURCE, "n1-000008004")
    assert devices.of_vgpu(vgpu(resourceName="nvidia.com/own")) == DeviceFact(
        "n1", "nvidia.com/own", "n1-000008004"
    )
    assert devices.of_vgpu(vgpu(framework="vendor-vfio")) is None
    assert devices.of_vgpu(vgpu(vGPUStatus="")) is None
    assert devices.of_vgpu(vgpu(configureVGPUTypeName="")) is None


def test_a_usb_claim_is_on_the_node_that_its_status_says() -> None:
    obj = {
        "metadata": {"name": "n1-046d-c52b-003011"},
        "status": {"nodeName": "n1", "resourceName": "kubevirt.io/x", "conditions": READY},
    }
    assert devices.of_usb_claim(decode(USBDeviceClaim, obj)) == DeviceFact(
        "n1", "kubevirt.io/x", "n1-046d-c52b-003011"
    )


# ---- demands ----


def vm(name: str = "a", resources: tuple[str, ...] = (RESOURCE,), **more: Any) -> Any:
    domain = {
        "devices": {"gpus": [{"name": f"g{n}", "deviceName": r} for n, r in enumerate(resources)]}
    }
    spec = {"template": {"spec": {"domain": domain}}, **more.pop("spec", {})}
    meta = {"name": name, "namespace": "d", **more.pop("metadata", {})}
    return decode(VirtualMachine, {"metadata": meta, "spec": spec, **more})


def instance(phase: str, name: str = "a", resource: str = RESOURCE, node: str = "") -> Any:
    spec = {"domain": {"devices": {"hostDevices": [{"name": "h", "deviceName": resource}]}}}
    return decode(
        VirtualMachineInstance,
        {
            "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"},
            "spec": spec,
            "status": {"phase": phase, "nodeName": node},
        },
    )


def pod(name: str = "p", limits: Any = None, **more: Any) -> Pod:
    container = {"resources": {"limits": {RESOURCE: "1"} if limits is None else limits}}
    spec = {"containers": [container], **more.pop("spec", {})}
    meta = {"name": name, "namespace": "d", **more.pop("metadata", {})}
    return decode(Pod, {"metadata": meta, "spec": spec, **more})


def only(vms: Any = (), instances: Any = (), pods: Any = ()) -> Demand:
    [demand] = demands.of_vms(vms, instances, pods)
    return demand


@pytest.mark.parametrize(
    ("spec", "status", "phase"),
    [
        ({"running": True}, {}, Phase.PENDING),
        ({"running": False}, {}, Phase.STOPPED),
        ({}, {}, Phase.STOPPED),
        ({"runStrategy": "Always"}, {"printableStatus": "Stopped"}, Phase.PENDING),
        ({"runStrategy": "Halted"}, {}, Phase.STOPPED),
        ({"runStrategy": "Manual"}, {}, Phase.STOPPED),
        ({"runStrategy": "RerunOnFailure"}, {"printableStatus": "Starting"}, Phase.PENDING),
        ({"runStrategy": "RerunOnFailure"}, {"printableStatus": "Stopped"}, Phase.STOPPED),
        ({"runStrategy": "Once"}, {}, Phase.PENDING),
        ({"runStrategy": "nonsense"}, {}, Phase.STOPPED),
    ],
)
def test_a_vm_without_instance_is_stopped_or_about_to_run(
    spec: Any, status: Any, phase: Phase
) -> None:
    demand = only([vm(spec=spec, status=status)])
    assert (demand.phase, dict(demand.requests)) == (phase, {RESOURCE: 1})


@pytest.mark.parametrize(
    ("phase", "meant"),
    [
        ("", Phase.PENDING),
        ("Scheduling", Phase.PENDING),
        ("Scheduled", Phase.PENDING),
        ("Running", Phase.RUNNING),
        ("Unknown", Phase.RUNNING),
        ("Succeeded", Phase.STOPPED),
    ],
)
def test_the_instance_says_how_far_it_is(phase: str, meant: Phase) -> None:
    stopped = vm(spec={"runStrategy": "Manual"})
    assert only([stopped], [instance(phase)]).phase is meant


@pytest.mark.parametrize(
    ("strategy", "phase", "meant"),
    [
        ("RerunOnFailure", "Failed", Phase.PENDING),
        ("RerunOnFailure", "Succeeded", Phase.STOPPED),
        ("Once", "Failed", Phase.STOPPED),
        ("Always", "Succeeded", Phase.PENDING),
    ],
)
def test_an_instance_that_has_ended_may_come_again(strategy: str, phase: str, meant: Phase) -> None:
    assert only([vm(spec={"runStrategy": strategy})], [instance(phase)]).phase is meant


def test_what_runs_has_what_its_instance_requests() -> None:
    edited = vm(resources=(RESOURCE, RESOURCE), spec={"running": True})
    demand = only([edited], [instance("Running", resource="nvidia.com/L4", node="n1")])
    assert dict(demand.requests) == {"nvidia.com/L4": 1}
    assert demand.node == "n1"


def test_an_instance_without_a_vm_is_a_demand() -> None:
    demand = only([], [instance("Running", "bare", node="n1")])
    assert demand.consumer == Consumer(ConsumerKind.VM, "d", "bare")


def test_a_vm_that_waits_is_where_its_pod_is() -> None:
    launcher = pod(
        "virt-launcher-a",
        metadata={"labels": {"kubevirt.io/created-by": "uid-a"}},
        spec={"nodeName": "n7"},
    )
    demand = only([vm(spec={"running": True})], [instance("Scheduling")], [launcher])
    assert (demand.phase, demand.node) == (Phase.PENDING, "n7")
    assert demands.of_pod(launcher, {RESOURCE}) is None


def test_a_stopped_vm_that_is_being_deleted_keeps_nothing() -> None:
    leaving = vm(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert list(demands.of_vms([leaving], [], [])) == []
    assert only([leaving], [instance("Running")]).phase is Phase.RUNNING


def test_the_record_tells_which_devices_it_had() -> None:
    text = '{"gpus":{"r/x":["n1-000008004"]},"hostdevices":{"r/y":["n1-000009000"]}}'
    annotation = "harvesterhci.io/deviceAllocationDetails"
    demand = only([vm(metadata={"annotations": {annotation: text}})])
    assert set(demand.last) == {"n1-000008004", "n1-000009000"}


@given(st.text() | st.sampled_from(["[]", "null", '{"gpus":3}', "{" * 100_000]))
def test_a_record_that_is_spoilt_says_nothing(text: str) -> None:
    annotation = "harvesterhci.io/deviceAllocationDetails"
    assert only([vm(metadata={"annotations": {annotation: text}})]).last == ()


def test_a_pod_requests_what_is_known_and_is_no_vm() -> None:
    found = demands.of_pod(
        pod(limits={RESOURCE: "2", "cpu": "1", "amd.com/gpu": "1"}, status={"phase": "Running"}),
        {RESOURCE},
    )
    assert found is not None
    assert (found.consumer, found.phase) == (Consumer(ConsumerKind.POD, "d", "p"), Phase.RUNNING)
    assert dict(found.requests) == {RESOURCE: 2}
    assert demands.of_pod(pod(limits={"amd.com/gpu": "1"}), {RESOURCE}) is None
    assert demands.of_pod(pod(status={"phase": "Succeeded"}), {RESOURCE}) is None


@pytest.mark.parametrize(
    ("quantity", "count"), [("2", 2), (3, 3), ("1k", 1000), ("-1", 0), ("0.5", 0), ("1e9999999", 0)]
)
def test_counts_are_whole_numbers(quantity: Any, count: int) -> None:
    found = demands.of_pod(pod(limits={RESOURCE: quantity}), {RESOURCE})
    assert (found.requests[RESOURCE] if found else 0) == count


def test_initial_containers_count_as_the_scheduler_counts_them() -> None:
    first = {"resources": {"limits": {RESOURCE: "3"}}}
    found = demands.of_pod(pod(spec={"initContainers": [first, first]}), {RESOURCE})
    assert found is not None
    assert found.requests == {RESOURCE: 3}


def test_most_pods_are_of_no_interest() -> None:
    assert not asks(pod(limits={"cpu": "1", "memory": "1Gi"}))
    assert asks(pod())
    assert asks(pod(limits={}, metadata={"labels": {"kubevirt.io/created-by": "x"}}))


def test_of_a_pod_that_requests_nothing_it_is_only_known_that_it_is_there() -> None:
    body = {
        "metadata": {"name": "p", "namespace": "n", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"cpu": "1"}}}]},
    }
    found = PODS.decode(json.encode(body))
    assert (found.metadata.name, found.metadata.resource_version) == ("p", "7")
    assert (dict(found.metadata.labels), found.spec) == ({}, PodSpec())


# ---- nodes ----


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ({}, ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "not ready"),
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"metadata": {"name": "n", "labels": {"kubevirt.io/schedulable": "false"}}}, "KubeVirt"),
        ({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "deleted"),
    ],
)
def test_a_node_tells_why_nothing_can_start_there(obj: Any, why: str) -> None:
    fact = nodes.of_node(decode(CoreNode, {"metadata": {"name": "n"}, **obj}))
    assert why in fact.closed
    assert bool(why) == bool(fact.closed)


def test_a_pod_with_a_gpu_instance_is_known_by_that_alone() -> None:
    instance = "nvidia.com/mig-1g.5gb"
    found = demands.of_container_pod(pod(limits={instance: "2", RESOURCE: "1", "cpu": "1"}))
    assert found is not None
    assert dict(found.requests) == {instance: 2}
    assert demands.of_container_pod(pod(limits={RESOURCE: "1"})) is None
