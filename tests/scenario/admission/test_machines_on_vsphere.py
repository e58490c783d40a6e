"""Machines of Cluster API on vSphere as a person writes them with kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.resource import Resource
from laneway.simcluster.clusterapi.install import install
from support.databases import with_more
from support.kubectl import Kubectl

GROUP = "infrastructure.cluster.x-k8s.io"
T4 = {"deviceId": 7864, "vendorId": 4318}
VGPU = {"vGPUProfile": "grid_t4-16q"}
PROPOSED = {"pcidevices": [T4], "vgpudevices": [{"profileName": "grid_t4-16q"}]}
SERVER = "vc.example.com"
CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Any)


@pytest.fixture(scope="module")
def clusterapi_installed(
    kubevirt_installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What every test of the scenarios finds, and the kinds of Cluster API and for vSphere."""

    async def fill(client: Client) -> None:
        await install(client)
        await client.create(CRDS, control_planes())

    return with_more(kubevirt_installed, tmp_path_factory.mktemp("clusterapi"), fill)


@pytest.fixture
def beginning(clusterapi_installed: Path) -> Path:
    return clusterapi_installed


def control_planes() -> dict[str, Any]:
    """The definition; its own knows a hundred fields that are handed on to kubeadm."""
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": kept, "status": kept}}
        },
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kubeadmcontrolplanes.{CONTROL_PLANE_GROUP}"},
        "spec": {
            "group": CONTROL_PLANE_GROUP,
            "names": {
                "kind": "KubeadmControlPlane",
                "listKind": "KubeadmControlPlaneList",
                "plural": "kubeadmcontrolplanes",
                "singular": "kubeadmcontrolplane",
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def machine(name: str, **spec: Any) -> dict[str, Any]:
    network = {"devices": [{"networkName": "VM Network", "dhcp4": True}]}
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "VSphereMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": "ubuntu", "server": SERVER, "network": network} | spec,
    }


def template(name: str, **spec: Any) -> dict[str, Any]:
    raw = machine(name, **spec)
    return raw | {"kind": "VSphereMachineTemplate", "spec": {"template": {"spec": raw["spec"]}}}


def deployment(name: str, replicas: int, of: str) -> dict[str, Any]:
    ref = {"apiGroup": GROUP, "kind": "VSphereMachineTemplate", "name": of}
    machines = {"clusterName": "c", "bootstrap": {"dataSecretName": "b"}, "infrastructureRef": ref}
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterName": "c",
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": name}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": machines},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
        },
    }


def control_plane(name: str, replicas: int, of: str) -> dict[str, Any]:
    ref = {"apiGroup": GROUP, "kind": "VSphereMachineTemplate", "name": of}
    return {
        "apiVersion": f"{CONTROL_PLANE_GROUP}/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "version": "v1.34.2",
            "machineTemplate": {"spec": {"infrastructureRef": ref}},
        },
    }


async def knows_a_host(admin: Kubectl, name: str, boards: int) -> None:
    """As the manager would tell of it."""
    reported = [
        {
            "id": f"0000:{at:02x}:00.0",
            "name": "Tesla T4",
            "memoryGiB": 16,
            "profiles": [{"name": "grid_t4-16q", "memoryGiB": 16}],
        }
        for at in range(boards)
    ]
    ours = "devices.harvesterhci.io/v1beta1"
    await admin.apply(
        {
            "apiVersion": ours,
            "kind": "VCenter",
            "metadata": {"name": "main"},
            "spec": {"server": SERVER},
        }
    )
    await admin.apply(
        {
            "apiVersion": ours,
            "kind": "VSphereHost",
            "metadata": {"name": name},
            "spec": {"vCenter": "main", "ref": "host-1"},
        }
    )
    status = {
        "host": name,
        "datacenter": "DC0",
        "cluster": "C0",
        "connected": True,
        "sharedDirect": True,
        "boards": reported,
    }
    merge = json.dumps({"status": status})
    await admin.ok(
        "patch", "vspherehost", name, "--subresource=status", "--type=merge", "-p", merge
    )


async def test_a_wrong_machine_is_refused_in_capvs_words_and_a_right_one_made_right(
    admin: Kubectl,
) -> None:
    said = await admin.not_applied(machine("gpu", pciDevices=[VGPU, {"deviceId": 7864}]))
    assert said.startswith('The VSphereMachine "gpu" is invalid: spec.pciDevices[1]: ')
    assert "should have either deviceId + vendorId or vGPUProfile set; vendorId is missing" in said
    said = await admin.not_applied(
        template("gpu", pciDevices=[T4], nestedHV=True, hardwareVersion="vmx-15")
    )
    assert 'The VSphereMachineTemplate "gpu" is invalid' in said
    assert "* spec.template.spec.nestedHV: Invalid value: true: should not be set" in said
    assert "* spec.template.spec.hardwareVersion: Invalid value" in said
    assert "should be vmx-17 or newer" in said

    await admin.apply(machine("gpu", **PROPOSED))
    stored = (await admin.get("vspheremachine", "gpu"))["spec"]
    assert stored["pciDevices"] == [T4, VGPU]
    assert not {"pcidevices", "vgpudevices"} & set(stored)
    assert stored["datacenter"] == "*"


@pytest.mark.slow
async def test_the_same_file_applied_twice_changes_nothing(admin: Kubectl) -> None:
    for raw in (machine("gpu", **PROPOSED), template("gpu", **PROPOSED)):
        text = json.dumps(raw)
        await admin.ok("apply", "-f", "-", stdin=text)
        before = await admin.get(raw["kind"], "gpu")
        await admin.ok("apply", "-f", "-", stdin=text)
        after = await admin.get(raw["kind"], "gpu")
        assert after["spec"] == before["spec"]
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        # By the server too, for another manager of fields.
        await admin.ok("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
        assert (await admin.get(raw["kind"], "gpu"))["spec"] == before["spec"]


@pytest.mark.slow
async def test_controllers_go_on_with_a_machine(admin: Kubectl) -> None:
    """What CAPV's controllers write is let pass, and devices do not change."""
    await admin.apply(machine("gpu", pciDevices=[VGPU]))
    await admin.patch("vspheremachine", "gpu", providerID="vsphere://1", powerOffMode="trySoft")
    await admin.patch("vspheremachine", "gpu", guestSoftPowerOffTimeoutSeconds=60)
    said = await admin.not_patched("vspheremachine", "gpu", pciDevices=[VGPU, T4])
    assert "spec: Forbidden: cannot be modified; pciDevices changed" in said
    said = await admin.not_patched("vspheremachine", "gpu", powerOffMode="hard")
    assert "spec.guestSoftPowerOffTimeoutSeconds: Invalid value: 60: should not be set" in said
    ready = json.dumps({"status": {"conditions": []}})
    await admin.ok(
        *("patch", "vspheremachine", "gpu", "--subresource=status", "--type=merge", "-p", ready)
    )
    finalizer = json.dumps({"metadata": {"finalizers": ["a.example.com/b"]}})
    await admin.ok("patch", "vspheremachine", "gpu", "--type=merge", "-p", finalizer)
    await admin.ok("delete", "vspheremachine", "gpu", "--wait=false")
    none = json.dumps({"metadata": {"finalizers": []}})
    await admin.ok("patch", "vspheremachine", "gpu", "--type=merge", "-p", none)
    assert (await admin.get("vspheremachines"))["items"] == []


@pytest.mark.slow
async def test_two_hundred_devices_and_odd_names(admin: Kubectl) -> None:
    said = await admin.not_applied(machine("gpu", pciDevices=[VGPU] * 200))
    assert "spec.pciDevices: Too many: 200: must have at most 128 items" in said
    odd = [{"vGPUProfile": "../../%2e%2e/é'\"$(x)"}]
    await admin.apply(machine("gpu", pciDevices=odd))
    assert (await admin.get("vspheremachine", "gpu"))["spec"]["pciDevices"] == odd


@pytest.mark.slow
async def test_one_machine_too_many_is_reported_at_once(admin: Kubectl) -> None:
    await knows_a_host(admin, "esx-1", boards=2)
    other = template("other", pciDevices=[{"vGPUProfile": "grid_a100-40c"}])
    warned = await _warned(admin, other)
    assert "spec.template.spec.pciDevices[0]: No host in this vCenter has grid_a100-40c" in warned

    # A template and its machines in one file.
    both = {"apiVersion": "v1", "kind": "List"}
    items = [template("gpu", pciDevices=[VGPU]), deployment("workers", 2, "gpu")]
    await admin.apply(both | {"items": items})
    warned = await _warned(admin, deployment("more", 3, "gpu"))
    assert "spec.replicas: hosts have room for 2 of 3 Machines that each request" in warned
    assert "1 x grid_t4-16q; the rest waits." in warned
    warned = await admin.warned("scale", "machinedeployment", "workers", "--replicas=5")
    assert "hosts have room for 2 of 3 more Machines" in warned
    await admin.ok("scale", "machinedeployment", "workers", "--replicas=1")


@pytest.mark.slow
async def test_a_cluster_of_one_machine_that_gets_no_device_is_reported_at_once(
    admin: Kubectl,
) -> None:
    """Its control plane is all there is of it."""
    await knows_a_host(admin, "esx-1", boards=2)
    await admin.apply(template("gpu", pciDevices=[VGPU]))
    warned = await _warned(admin, control_plane("large", 3, "gpu"))
    assert "spec.replicas: hosts have room for 2 of 3 Machines that each request" in warned
    await admin.apply(control_plane("small", 1, "gpu"))
    warned = await admin.warned("scale", "kubeadmcontrolplane", "small", "--replicas=4")
    assert "hosts have room for 2 of 3 more Machines" in warned
    await admin.ok("scale", "kubeadmcontrolplane", "small", "--replicas=1")
    await _warned(admin, template("three", pciDevices=[VGPU] * 3))
    other = {"machineTemplate": {"spec": {"infrastructureRef": {"name": "three"}}}}
    merge = json.dumps({"spec": other})
    changed = ("patch", "kubeadmcontrolplane", "small", "--type=merge", "-p", merge)
    warned = await admin.warned(*changed)
    assert "spec.machineTemplate.spec.infrastructureRef.name: " in warned
    await admin.ok("delete", "kubeadmcontrolplane", "small", "large")


async def _warned(admin: Kubectl, raw: dict[str, Any]) -> str:
    return await admin.warned("create", "-f", "-", stdin=json.dumps(raw))
