"""The pod that runs a VM instance."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from laneway.kube.kubevirt import PermittedHostDevices, vm_of
from laneway.kube.pods import PODS
from laneway.simcluster.kubevirt.manifest import launcher_pod, pod_name, refused
from laneway.simcluster.kubevirt.objects import INSTANCES, Instance


def instance(domain: Any = None, name: str = "vm", **spec: Any) -> Instance:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": "uid-1", "labels": {"a": "b"}},
        "spec": {"domain": domain or {}, **spec},
    }
    return INSTANCES.decode(msgspec.json.encode(body))


DEVICES = {
    "hostDevices": [
        {"name": "n", "deviceName": "intel.com/NIC"},
        {"name": "dra", "claimName": "c"},
    ],
    "gpus": [
        {"name": "g1", "deviceName": "nvidia.com/V"},
        {"name": "g2", "deviceName": "nvidia.com/V"},
    ],
}


def test_devices_are_counted_by_resource_and_everything_is_labelled() -> None:
    domain = {
        "devices": DEVICES,
        "cpu": {"cores": 4, "sockets": 2},
        "memory": {"guest": "4Gi"},
    }
    made = launcher_pod(instance(domain, nodeSelector={"kubernetes.io/hostname": "n1"}))
    [container] = made["spec"]["containers"]
    assert container["name"] == "compute"
    assert container["resources"] == {
        "requests": {"cpu": "800m", "memory": "4Gi", "intel.com/NIC": "1", "nvidia.com/V": "2"},
        "limits": {"intel.com/NIC": "1", "nvidia.com/V": "2"},
    }
    assert made["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["metadata"]["labels"] == {
        "a": "b",
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "uid-1",
        "vm.kubevirt.io/name": "vm",
    }
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "VirtualMachineInstance",
        "uid-1",
        True,
    )


@pytest.mark.parametrize(
    ("made", "hostname"),
    [
        (instance(name="a.office.example"), "a"),
        (instance(name="a" * 70), "a" * 63),
        (instance(name="a", hostname="b"), "b"),
    ],
)
def test_the_label_is_what_the_guest_calls_itself_and_the_name_is_said_elsewhere(
    made: Instance, hostname: str
) -> None:
    pod = PODS.decode(msgspec.json.encode(launcher_pod(made))).metadata
    assert pod.labels["vm.kubevirt.io/name"] == hostname
    assert pod.annotations["kubevirt.io/domain"] == made.metadata.name
    assert vm_of(pod) == made.metadata.name


def test_the_vm_of_a_pod_is_found_by_what_the_pod_still_says() -> None:
    pod = PODS.decode(msgspec.json.encode(launcher_pod(instance(hostname="other")))).metadata
    [owner] = pod.owner_references
    orphan = replace(pod, owner_references=[replace(owner, controller=False)])
    assert vm_of(orphan) == "vm"
    assert vm_of(replace(orphan, annotations={})) == "other"
    # Anybody may label a pod of his own with the name of a VM.
    assert vm_of(replace(pod, labels={"vm.kubevirt.io/name": "vm"})) == ""


def test_what_the_vm_says_of_its_resources_counts() -> None:
    resources = {"requests": {"memory": "1Gi", "cpu": "2"}, "limits": {"memory": "2Gi"}}
    made = launcher_pod(instance({"resources": resources}))
    [container] = made["spec"]["containers"]
    assert container["resources"] == resources


def test_one_instance_has_one_pod_whose_name_is_valid() -> None:
    assert pod_name(instance()) == pod_name(instance())
    long = pod_name(instance(name="x" * 229 + "." + "y" * 20))
    assert len(long) <= 253
    assert ".-" not in long


@pytest.mark.parametrize(
    ("permitted", "expected"),
    [
        (None, ""),
        (
            PermittedHostDevices(),
            (
                "GPU nvidia.com/V is not permitted in permittedHostDevices configuration "
                "GPU nvidia.com/V is not permitted in permittedHostDevices configuration "
                "HostDevice intel.com/NIC is not permitted in permittedHostDevices configuration"
            ),
        ),
        (
            PermittedHostDevices(
                mediated_devices=({"resourceName": "nvidia.com/V"},),
                usb=({"resourceName": "kubevirt.io/u"},),
            ),
            "HostDevice intel.com/NIC is not permitted in permittedHostDevices configuration",
        ),
        (
            PermittedHostDevices(
                pci_host_devices=(
                    {"resourceName": "intel.com/NIC"},
                    {"resourceName": "nvidia.com/V"},
                )
            ),
            "",
        ),
    ],
)
def test_what_is_not_permitted_is_named(
    permitted: PermittedHostDevices | None, expected: str
) -> None:
    assert refused(instance({"devices": DEVICES}), permitted) == expected
