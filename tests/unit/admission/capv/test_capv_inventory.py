"""Whether a vCenter has the devices that a template requests."""

from __future__ import annotations

from typing import Any

import pytest

TEMPLATE = "VSphereMachineTemplate"
VGPU = {"vGPUProfile": "grid_t4-16q"}
OTHER = {"vGPUProfile": "grid_a100-40c"}


async def test_nothing_is_said_where_no_vcenter_is_followed(scene: Any) -> None:
    assert await scene.warnings(scene.obj(TEMPLATE, {"pciDevices": [OTHER]})) == []


@pytest.mark.parametrize("ready", [False, True])
async def test_what_is_not_known_is_not_missing(scene: Any, ready: bool) -> None:
    scene.vcenter(ready=ready)
    [said] = await scene.warnings(scene.obj(TEMPLATE, {"pciDevices": [VGPU]}))
    if ready:
        assert "has GPUs or other PCI devices for VMs" in said
    else:
        assert "does not know the hosts of vc.example.com" in said


async def test_a_profile_that_no_host_offers(scene: Any) -> None:
    scene.vcenter()
    scene.host("h1", ["vm-1"])
    raw = scene.obj(TEMPLATE, {"pciDevices": [VGPU, OTHER]})
    [said] = await scene.warnings(raw)
    assert said.startswith("spec.template.spec.pciDevices[1]: No host in this vCenter has")
    assert "grid_a100-40c" in said
    assert "grid_t4-16q" in said

    scene.refuses()
    [(path, words)] = await scene.causes(raw)
    assert path == "spec.template.spec.pciDevices[1]"
    assert words.startswith("Forbidden: No host in this vCenter has grid_a100-40c.")


async def test_the_same_is_reported_once_and_not_everything_is_looked_up(scene: Any) -> None:
    scene.vcenter()
    scene.host("h1")
    scene.refuses()
    many = [OTHER] * 100 + [{"vGPUProfile": f"no-{number}"} for number in range(28)]
    causes = await scene.causes(scene.obj(TEMPLATE, {"pciDevices": many}))
    indexes = [0, *range(100, 107)]
    assert [path for path, _ in causes] == [
        f"spec.template.spec.pciDevices[{index}]" for index in indexes
    ]


async def test_more_than_one_host_can_have(scene: Any) -> None:
    scene.vcenter()
    scene.refuses()
    scene.host("h1", boards=2)
    scene.host("h2", boards=2)
    assert await scene.causes(scene.obj(TEMPLATE, {"pciDevices": [VGPU] * 2})) == []
    [(path, words)] = await scene.causes(scene.obj(TEMPLATE, {"pciDevices": [VGPU] * 3}))
    assert path == "spec.template.spec.pciDevices"
    assert "All devices of a VM must be on one host" in words


async def test_what_is_in_use_is_there(scene: Any) -> None:
    scene.vcenter()
    scene.refuses()
    scene.host("h1", ["vm-1"], maintenance=True)
    assert await scene.warnings(scene.obj(TEMPLATE, {"pciDevices": [VGPU]})) == []


async def test_a_template_may_be_for_the_failure_domains_of_another_vcenter(scene: Any) -> None:
    scene.vcenter()
    scene.refuses()
    scene.host("h1")
    there = scene.obj(TEMPLATE, {"pciDevices": [VGPU], "server": "elsewhere.example.com"})
    [said] = await scene.warnings(there)
    assert "does not know the hosts of elsewhere.example.com" in said
    zone = {"metadata": {"name": "z"}, "spec": {"server": "VC.example.com"}}
    scene.knows("vsphere_zones", zone)
    assert await scene.warnings(there) == []


async def test_a_template_without_a_server_is_for_that_of_its_cluster(scene: Any) -> None:
    scene.vcenter()
    scene.host("h1")
    label = {"cluster.x-k8s.io/cluster-name": "c"}
    meta = {"name": "c-x", "namespace": "default", "labels": label}
    cluster = {"metadata": meta, "spec": {"server": "elsewhere.example.com"}}
    scene.knows("vsphere_clusters", cluster)
    raw = scene.obj(TEMPLATE, {"pciDevices": [OTHER], "server": ""}, labels=label)
    [said] = await scene.warnings(raw)
    assert "elsewhere.example.com" in said
    raw = scene.obj(TEMPLATE, {"pciDevices": [OTHER], "server": ""})
    [said] = await scene.warnings(raw)
    assert "has grid_a100-40c" in said


async def test_machines_that_controllers_make_are_not_held_up(scene: Any) -> None:
    scene.vcenter()
    scene.host("h1")
    scene.refuses()
    spec = {"pciDevices": [OTHER]}
    assert await scene.causes(scene.obj("VSphereMachine", spec))
    cloned = {"annotations": {"cluster.x-k8s.io/cloned-from-name": "gpu"}}
    assert await scene.warnings(scene.obj("VSphereMachine", spec, **cloned)) == []
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "1"}
    owned = scene.obj("VSphereMachine", spec, ownerReferences=[owner])
    assert await scene.warnings(owned) == []
    assert await scene.warnings(scene.obj("VSphereVM", spec)) == []
