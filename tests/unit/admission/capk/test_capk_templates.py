"""KubevirtMachineTemplates: judged like a VM that is stopped."""

from __future__ import annotations

from typing import Any

from laneway.admission.capk.templates import elsewhere

LABELS = {"cluster.x-k8s.io/cluster-name": "c"}


async def test_a_resource_that_there_is_not(scene: Any) -> None:
    raw = scene.template(resource="nvidia.com/NVIDIA_A2-4C", labels=LABELS)
    assert await scene.refused(raw) == [("", "ResourceNotFound")]
    assert "nvidia.com/NVIDIA_A2-4Q" in scene.message


async def test_without_its_cluster_the_same_is_a_warning(scene: Any) -> None:
    """`clusterctl` labels no template, and its cluster may say that VMs are elsewhere."""
    [said] = await scene.warned(scene.template(resource="nvidia.com/NVIDIA_A2-4C"))
    assert "nvidia.com/NVIDIA_A2-4C" in said


async def test_what_no_node_has_free_or_not_is_told(scene: Any) -> None:
    """Whether there is room now matters for the machines, which may take the place of others."""
    scene.vm("other", "n1")
    assert await scene.warned(scene.template(gpus=2, labels=LABELS)) == []
    [said] = await scene.warned(scene.template(gpus=3, labels=LABELS))
    assert said.startswith(
        "No VM of this template can start, even with all devices free: nvidia.com/NVIDIA_A2-4Q: 3 "
        "requested on one node; node n1 has 2 free of 2;"
    )
    nowhere = scene.template(guest={"nodeSelector": {"zone": "c"}}, labels=LABELS)
    [said] = await scene.warned(nowhere)
    assert "no usable node has any" in said


async def test_elsewhere_is_not_judged(scene: Any) -> None:
    ref = {"infraClusterSecretRef": {"name": "kubeconfig"}}
    said = await scene.warned(scene.template(resource="example.com/x", machine=ref))
    assert said == [elsewhere("gpu")]


async def test_an_instancetype_may_have_devices(scene: Any) -> None:
    raw = scene.template(gpus=0)
    vm = raw["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    vm["instancetype"] = {"name": "large"}
    [said] = await scene.warned(raw)
    assert said.startswith("Devices of instancetype 'large' are not checked.")


async def test_too_many_entries_are_refused_unread(scene: Any) -> None:
    assert await scene.refused(scene.template(gpus=65)) == [("", "TooManyDevices")]


async def test_a_template_that_exists_is_left_alone(scene: Any) -> None:
    """CAPK lets nothing but metadata change."""
    raw = scene.template(resource="example.com/x", labels=LABELS)
    assert await scene.refused(raw | {"metadata": raw["metadata"] | {"labels": {}}}, raw) == []
