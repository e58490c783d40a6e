"""The VSphereVM that is made for a VSphereMachine."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.vsphere.spec.vm_names import NamingError
from laneway.kube.capv import (
    ClusterSpec,
    DeploymentZoneSpec,
    FailureDomainSpec,
    MachineSpec,
    PlacementConstraint,
    Topology,
    VmSpec,
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
)
from laneway.vsphere.machines.vm_spec import changes, vm_name, vm_spec

CLUSTER = VSphereCluster(spec=ClusterSpec(server="vc-1", thumbprint="AA"))
SPEC: dict[str, Any] = {
    "template": "ubuntu",
    "providerID": "vsphere://x",
    "failureDomain": "one",
    "pciDevices": [{"vGPUProfile": "grid_t4-8q"}],
    "unknown": {"to": "us"},
    "folder": "mine",
    "network": {"devices": [{"networkName": "a", "mtu": 9000}], "preferred": 1},
}


def test_everything_but_what_is_the_machines_alone_is_copied() -> None:
    found = vm_spec(SPEC, CLUSTER, None, None, "data")
    assert (
        found.items() >= {"template": "ubuntu", "unknown": {"to": "us"}, "folder": "mine"}.items()
    )
    assert found["server"] == "vc-1"
    assert found["thumbprint"] == "AA"
    assert found["bootstrapRef"] == {"name": "data"}
    assert not found.keys() & {"providerID", "failureDomain"}


def test_the_failure_domain_has_the_last_word() -> None:
    zone = VSphereDeploymentZone(
        spec=DeploymentZoneSpec(
            server="vc-2", placement_constraint=PlacementConstraint(resource_pool="pool")
        )
    )
    domain = VSphereFailureDomain(
        spec=FailureDomainSpec(
            topology=Topology(datacenter="DC1", datastore="fast", networks=["b", "c"])
        )
    )
    found = vm_spec(SPEC, CLUSTER, zone, domain, "")
    assert (found["server"], found["datacenter"], found["datastore"]) == ("vc-2", "DC1", "fast")
    assert (found["resourcePool"], found["folder"]) == ("pool", "mine")
    assert found["network"] == {
        "devices": [{"networkName": "b", "mtu": 9000}, {"networkName": "c", "dhcp4": True}],
        "preferred": 1,
    }
    assert SPEC["network"]["devices"][0]["networkName"] == "a"


def test_only_what_may_change_is_changed() -> None:
    there = VmSpec(power_off_mode="hard")
    assert changes(MachineSpec(template="other", power_off_mode="hard"), there) == {}
    assert changes(MachineSpec(power_off_mode="soft"), there) == {"powerOffMode": "soft"}
    assert changes(MachineSpec(), there) == {"powerOffMode": None}
    slow = MachineSpec(power_off_mode="hard", guest_soft_power_off_timeout_seconds=9)
    assert changes(slow, there) == {"guestSoftPowerOffTimeoutSeconds": 9}


def test_windows_has_short_names() -> None:
    long = "workers-7d9f4-x2x9z"
    assert vm_name(long, {"os": "Linux"}) == long
    assert vm_name(long, {"os": "Windows"}) == "workers-7-x2x9z"
    assert vm_name("short", {"os": "Windows"}) == "short"


def test_names_are_made_by_the_template_for_them() -> None:
    spec = {"naming": {"template": "gpu-{{ .machine.name | trunc 3 }}"}}
    assert vm_name("workers", spec) == "gpu-wor"
    within = {"naming": {"template": '{{ trunc (3) (.machine.name | trimSuffix "kers") }}-gpu'}}
    assert vm_name("workers", within) == "wor-gpu"
    assert vm_name("workers", {"naming": {"template": None}}) == "workers"
    with pytest.raises(NamingError, match="is not a valid"):
        vm_name("workers", {"naming": {"template": "GPU_{{ .machine.name }}"}})
