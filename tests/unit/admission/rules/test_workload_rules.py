"""Whom a GPU serves: how it goes from virtual machines to containers, and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.admission.rules import claims, gpus, nodes, pci_devices, vgpus
from laneway.admission.verdict import Verdict
from laneway.api import CoreNode, PCIDevice, SRIOVGPUDevice, VGPUDevice, decode

GPU, AUDIO, NIC, VF = "0000:08:00.0", "0000:08:00.1", "0000:09:00.0", "0000:08:00.4"
NAME = "node1-000008000"
AMD, INTEL, ASPEED = "1002", "8086", "1a03"


def device(scene: Any, address: str = GPU, workload: str = "", **status: Any) -> PCIDevice:
    found: PCIDevice = scene.pci(address, spec={"workload": workload}, **status)
    return found


def workload(old: PCIDevice, after: str) -> PCIDevice:
    return msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, workload=after))


def change(scene: Any, before: str, after: str) -> Verdict:
    old = device(scene, workload=before)
    verdict: Verdict = scene.judge(pci_devices.RULES, "UPDATE", old=old, new=workload(old, after))
    return verdict


def gpu(scene: Any, **spec: Any) -> SRIOVGPUDevice:
    found: SRIOVGPUDevice = scene.put(
        "gpus",
        SRIOVGPUDevice,
        {
            "metadata": {"name": NAME},
            "spec": {"address": GPU, "nodeName": "node1", **spec},
        },
    )
    return found


def label(scene: Any, **labels: str) -> None:
    scene.put("nodes", CoreNode, {"metadata": {"name": "node1", "labels": labels}})


def said(verdict: Verdict) -> str:
    return " ".join(one.words for one in verdict.refusals)


@pytest.mark.parametrize("vendor", ["10de", AMD, INTEL])
def test_a_gpu_for_containers_is_not_claimed_and_its_pods_are_named(
    scene: Any, reasons: Any, vendor: str
) -> None:
    resource = {"10de": "nvidia.com/gpu", AMD: "amd.com/gpu", INTEL: "gpu.intel.com/xe"}
    scene.pod("training", "node1", resource[vendor], phase="Running")
    scene.pod("others", "node1", "amd.com/gpu" if vendor != AMD else "nvidia.com/gpu")
    device(scene, workload="Containers", vendorId=vendor)
    verdict = scene.judge(claims.RULES, "CREATE", new=scene.claim(GPU))
    assert reasons(verdict) == ["GpusForContainers"]
    assert "its spec.workload is Containers" in said(verdict)
    assert "default/training." in said(verdict)
    assert said(verdict).endswith(
        f"""kubectl patch pcidevice {NAME} --type merge -p '{{"spec":{{"workload":"""
        """"VirtualMachines"}}'"""
    )


def test_what_shares_its_group_does_not_take_it_along(scene: Any, reasons: Any) -> None:
    device(scene, workload="Containers", iommuGroup="7")
    scene.pci(AUDIO, classId="0403", iommuGroup="7")
    scene.pci(NIC, classId="0200", iommuGroup="8")
    audio, nic = scene.claim(AUDIO), scene.claim(NIC)
    assert reasons(scene.judge(claims.RULES, "CREATE", new=audio)) == ["GpusForContainers"]
    assert scene.judge(claims.RULES, "CREATE", new=nic).allowed


def test_a_virtual_function_serves_whom_its_gpu_serves(scene: Any, reasons: Any) -> None:
    device(scene, workload="Containers")
    scene.pci(VF, physicalFunction=GPU, iommuGroup="11")
    verdict = scene.judge(claims.RULES, "CREATE", new=scene.claim(VF))
    assert reasons(verdict) == ["GpusForContainers"]


@pytest.mark.parametrize(
    ("labels", "of_gpu", "containers"),
    [
        ({"laneway.io/gpu-workload": "containers"}, "", True),
        ({"harvesterhci.io/gpu-baremetal-workloads": "true"}, "", True),
        ({"nvidia.com/gpu.workload.config": "container"}, "", True),
        ({"nvidia.com/gpu.workload.config": "vm-vgpu"}, "", False),
        ({"laneway.io/gpu-workload": "nonsense"}, "", False),
        ({"laneway.io/gpu-workload": "containers"}, "VirtualMachines", False),
        (
            {
                "laneway.io/gpu-workload": "virtual-machines",
                "harvesterhci.io/gpu-baremetal-workloads": "true",
            },
            "",
            False,
        ),
        (
            {
                "nvidia.com/gpu.workload.config": "vm-passthrough",
                "harvesterhci.io/gpu-baremetal-workloads": "true",
            },
            "",
            True,
        ),
        ({}, "", False),
    ],
)
def test_the_node_speaks_for_gpus_of_which_nothing_is_said(
    scene: Any, labels: dict[str, str], of_gpu: str, containers: bool
) -> None:
    label(scene, **labels)
    device(scene, workload=of_gpu)
    verdict = scene.judge(claims.RULES, "CREATE", new=scene.claim(GPU))
    assert verdict.allowed is not containers


def test_the_display_of_a_service_processor_is_no_gpu(scene: Any, reasons: Any) -> None:
    label(scene, **{"laneway.io/gpu-workload": "containers"})
    scene.pci(GPU, vendorId=ASPEED, classId="0300")
    assert scene.judge(claims.RULES, "CREATE", new=scene.claim(GPU)).allowed
    other = device(scene, vendorId=ASPEED, classId="0300")
    verdict = scene.judge(pci_devices.RULES, "UPDATE", old=other, new=workload(other, "Containers"))
    assert reasons(verdict) == ["NoGpu"]


def test_vgpus_and_virtual_functions_are_not_made_on_it(scene: Any, reasons: Any) -> None:
    device(scene)
    off = gpu(scene, workload="Containers")
    on = msgspec.structs.replace(off, spec=msgspec.structs.replace(off.spec, enabled=True))
    verdict = scene.judge(gpus.RULES, "UPDATE", old=off, new=on)
    assert reasons(verdict) == ["GpusForContainers"]
    both = msgspec.structs.replace(
        off, spec=msgspec.structs.replace(on.spec, workload="VirtualMachines")
    )
    assert scene.judge(gpus.RULES, "UPDATE", old=off, new=both).allowed
    vgpu = {
        "metadata": {"name": "node1-000008004"},
        "spec": {"address": VF, "nodeName": "node1", "parentGPUDeviceAddress": GPU},
        "status": {"availableTypes": {"NVIDIA A2-4Q": "1"}},
    }
    before = scene.put("vgpus", VGPUDevice, vgpu)
    vgpu["spec"] |= {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}  # type: ignore[operator]
    after = decode(VGPUDevice, msgspec.json.encode(vgpu))
    verdict = scene.judge(vgpus.RULES, "UPDATE", old=before, new=after)
    assert reasons(verdict) == ["GpusForContainers"]


def test_a_gpu_that_vms_have_does_not_go_to_containers(scene: Any, reasons: Any) -> None:
    assert change(scene, "", "Containers").allowed
    scene.claimed(GPU)
    scene.vm("ann", NAME, runs=True)
    verdict = change(scene, "", "Containers")
    assert reasons(verdict) == ["GpuServesVms"]
    assert f"PCIDeviceClaim {NAME}, used by VM default/ann" in said(verdict)
    assert "kubectl edit vm ann -n default" in said(verdict)
    assert change(scene, "Containers", "VirtualMachines").allowed


def test_a_group_member_that_is_claimed_keeps_the_gpu_from_containers(
    scene: Any, reasons: Any
) -> None:
    scene.pci(AUDIO, classId="0403")
    scene.claimed(AUDIO)
    verdict = change(scene, "", "Containers")
    assert reasons(verdict) == ["GpuServesVms"]
    assert said(verdict).endswith("kubectl delete pcideviceclaim node1-000008001")


def test_a_shared_gpu_does_not_go_to_containers(scene: Any, reasons: Any) -> None:
    device(scene)
    old = gpu(scene, enabled=True)
    new = msgspec.structs.replace(
        old, spec=msgspec.structs.replace(old.spec, workload="Containers")
    )
    verdict = scene.judge(gpus.RULES, "UPDATE", old=old, new=new)
    assert reasons(verdict) == ["GpuServesVms"]
    assert "it is enabled for vGPUs" in said(verdict)


def test_a_virtual_function_that_is_claimed_keeps_the_gpu_from_containers(
    scene: Any, reasons: Any
) -> None:
    function = scene.pci(VF, physicalFunction=GPU, iommuGroup="11")
    scene.claimed(VF)
    assert reasons(change(scene, "", "Containers")) == ["GpuServesVms"]
    after = workload(function, "Containers")
    verdict = scene.judge(pci_devices.RULES, "UPDATE", old=function, new=after)
    assert reasons(verdict) == ["NoGpu"]


def test_vgpus_go_before_the_gpu_that_has_them(scene: Any) -> None:
    device(scene)
    old = gpu(scene, enabled=True)
    new = msgspec.structs.replace(
        old, spec=msgspec.structs.replace(old.spec, workload="Containers")
    )
    vgpu = {
        "metadata": {"name": "node1-000008004"},
        "spec": {"nodeName": "node1", "parentGPUDeviceAddress": GPU, "enabled": True},
    }
    scene.put("vgpus", VGPUDevice, vgpu)
    verdict = scene.judge(gpus.RULES, "UPDATE", old=old, new=new)
    assert "kubectl patch vgpudevice node1-000008004 " in said(verdict)


def test_pods_keep_their_gpu(scene: Any, reasons: Any) -> None:
    assert change(scene, "Containers", "").allowed
    scene.pod("training", "node1", "nvidia.com/gpu", phase="Running")
    verdict = change(scene, "Containers", "")
    assert reasons(verdict) == ["GpuPodsRunning"]
    assert "default/training" in said(verdict)
    # Which of several GPUs it has only the kubelet knows; the agent asks who has this one open.
    scene.pci(NIC, spec={"workload": "Containers"})
    verdict = change(scene, "Containers", "")
    assert verdict.allowed
    assert "default/training" in verdict.warnings[0]


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"spec": {"workload": "Containers"}, "vendorId": AMD},
        {"spec": {"workload": "Containers"}, "physicalFunction": GPU},
    ],
)
def test_pods_keep_the_last_gpu_that_they_can_have(
    scene: Any, reasons: Any, other: dict[str, Any]
) -> None:
    scene.pod("training", "node1", "nvidia.com/gpu", phase="Running")
    scene.pci(NIC, **other)
    assert reasons(change(scene, "Containers", "")) == ["GpuPodsRunning"]


def test_two_objects_of_one_gpu_do_not_contradict_each_other(scene: Any, reasons: Any) -> None:
    gpu(scene, workload="VirtualMachines")
    assert reasons(change(scene, "", "Containers")) == ["WorkloadsContradict"]
    assert change(scene, "", "VirtualMachines").allowed


def test_a_label_concerns_gpus_of_which_nothing_is_said(scene: Any, reasons: Any) -> None:
    def node(**labels: str) -> CoreNode:
        raw = {"metadata": {"name": "node1", "labels": labels}}
        return decode(CoreNode, msgspec.json.encode(raw))

    device(scene)
    gpu(scene, enabled=True)
    to_containers = node(**{"laneway.io/gpu-workload": "containers"})
    verdict = scene.judge(nodes.RULES, "UPDATE", old=node(), new=to_containers)
    assert reasons(verdict) == ["GpuShared"]
    assert "laneway.io/gpu-workload" in said(verdict)
    gpu(scene, enabled=True, workload="VirtualMachines")
    assert scene.judge(nodes.RULES, "UPDATE", old=node(), new=to_containers).allowed
