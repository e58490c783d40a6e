"""MachineDeployments, MachineSets and control planes of KubeVirt VMs: whether all can start."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from laneway.admission.capk.templates import elsewhere
from laneway.admission.clusterapi import sets
from laneway.admission.request import Operation, Request, Requester
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS
from laneway.kube.resource import Key

RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
REPLICAS = "spec.replicas"
TOO_FEW = [(REPLICAS, "InsufficientDevices")]
SECRET = {"namespace": "secret"}
NO_SURGE = {"maxSurge": 0, "maxUnavailable": 1}
KINDS = ["MachineDeployment", "MachineSet", "KubeadmControlPlane"]
WAITS = "waits for room for a new machine before it deletes an old one: the nodes lack 1 x"


@pytest.mark.parametrize("kind", KINDS)
async def test_more_machines_than_devices_are_refused(scene: Any, kind: str) -> None:
    assert await scene.refused(scene.many(4, kind=kind)) == []

    assert await scene.refused(scene.many(5, kind=kind)) == TOO_FEW
    assert f"{kind}." in scene.message
    assert (
        f'"workers" is invalid: spec.replicas: Invalid value: 5: {RESOURCE}: 1 requested by each '
        "of 5 VMs, and there is enough for 4; node n1 has 2 free of 2; node n2 has 2 free of 2; "
        "no other node has any."
    ) in scene.message


async def test_what_another_vm_has_is_named(scene: Any) -> None:
    scene.vm("other", "n1")
    assert await scene.refused(scene.many(4)) == TOO_FEW
    assert "node n1 has 1 free of 2 (1 held by VM default/other)" in scene.message


async def test_machines_that_stay_need_nothing_new(scene: Any) -> None:
    for name, node in (("w-0", "n1"), ("w-1", "n1"), ("w-2", "n2")):
        scene.machine(name, node)
    assert await scene.refused(scene.many(4), scene.many(3)) == []
    assert await scene.refused(scene.many(5), scene.many(3)) == TOO_FEW
    assert "requested by each of 2 VMs, and there is enough for 1" in scene.message
    for fewer in (3, 2, 0):
        assert await scene.refused(scene.many(fewer), scene.many(3)) == []


async def test_a_vm_that_waits_for_a_device_is_no_machine_that_stays(scene: Any) -> None:
    for number in range(3):
        scene.vm(f"other-{number}", "n1" if number < 2 else "n2")
    scene.machine("w-0", "n2")
    scene.machine("w-1")
    assert await scene.refused(scene.many(3), scene.many(2)) == TOO_FEW
    assert "requested by each of 2 VMs, and there is enough for 0" in scene.message
    assert await scene.refused(scene.many(1), scene.many(2)) == []


async def test_devices_must_be_on_one_node_and_where_the_vm_may_be(scene: Any) -> None:
    scene.template("two", gpus=2)
    assert await scene.refused(scene.many(3, "two")) == TOO_FEW
    scene.template("three", gpus=3)
    assert await scene.refused(scene.many(1, "three")) == TOO_FEW
    scene.template("there", guest={"nodeSelector": {"zone": "b"}})
    assert await scene.refused(scene.many(2, "there")) == []
    assert await scene.refused(scene.many(3, "there")) == TOO_FEW
    rule = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rule]}}
    scene.template("not-there", guest={"affinity": {"nodeAffinity": required}})
    assert await scene.refused(scene.many(2, "not-there")) == []
    assert await scene.refused(scene.many(3, "not-there")) == TOO_FEW
    both = {"nodeSelector": {"zone": "b"}, "affinity": {"nodeAffinity": required}}
    scene.template("nowhere", guest=both)
    assert await scene.refused(scene.many(1, "nowhere")) == TOO_FEW


async def test_a_device_that_no_node_has(scene: Any) -> None:
    scene.template("other", resource="nvidia.com/NVIDIA_A2-16Q")
    assert await scene.refused(scene.many(1, "other")) == [(REPLICAS, "ResourceNotFound")]
    assert await scene.refused(scene.many(0, "other")) == []


@pytest.mark.parametrize(
    ("limits", "blocked"),
    [
        ({}, True),
        ({"maxSurge": 2}, True),
        ({"maxSurge": "10%", "maxUnavailable": "20%"}, True),
        ({"maxSurge": 1, "maxUnavailable": "25%"}, False),
        (NO_SURGE, False),
    ],
)
async def test_a_rolling_update_without_a_spare_device_is_told_in_time(
    scene: Any, limits: Any, blocked: bool
) -> None:
    said = await scene.warned(scene.many(4, limits=limits))
    assert [f"{WAITS} {RESOURCE}" in one for one in said] == [True] * blocked
    if blocked:
        assert said[0].endswith("or set maxSurge to 0 and maxUnavailable to 1.")
    assert await scene.warned(scene.many(3, limits=limits)) == []


async def test_a_rolling_update_that_begins(scene: Any) -> None:
    """Old machines are known by the MachineSet that made them."""
    old = scene.many(4)
    scene.knows("cluster_sets", scene.many(4, kind="MachineSet", name="workers-1"))
    for number in range(4):
        scene.machine(f"w-{number}", "n1" if number < 2 else "n2", made_by="workers-1")
    [said] = await scene.warned(scene.many(4, version="v1.35.0"), old)
    assert said.startswith("The rolling update of its machines waits for room")
    assert await scene.warned(scene.many(4, version="v1.35.0", limits=NO_SURGE), old) == []
    # Later, in the middle of it, more are desired.
    new = scene.many(4, version="v1.35.0", limits=NO_SURGE)
    scene.knows(
        "cluster_sets", scene.many(4, kind="MachineSet", name="workers-2", version="v1.35.0")
    )
    scene.machine("w-0", "n1", made_by="workers-2")
    more = scene.many(5, version="v1.35.0", limits=NO_SURGE)
    assert await scene.refused(more, new) == TOO_FEW
    assert "requested by each of 4 VMs, and there is enough for 3" in scene.message


async def test_machines_of_another_template_leave_what_they_have(scene: Any) -> None:
    scene.template("two", gpus=2)
    for number in range(4):
        scene.machine(f"w-{number}", "n1" if number < 2 else "n2")
    assert await scene.warned(scene.many(2, "two", limits=NO_SURGE), scene.many(4)) == []
    assert await scene.refused(scene.many(3, "two", limits=NO_SURGE), scene.many(4)) == TOO_FEW


async def test_machines_that_are_too_old_are_exchanged(scene: Any) -> None:
    for number in range(4):
        scene.machine(f"w-{number}", "n1" if number < 2 else "n2")
    later = scene.many(4, rollout={"after": "2026-11-20T00:00:00Z"})
    [said] = await scene.warned(later, scene.many(4))
    assert said.startswith("The rolling update of its machines waits for room")


async def test_on_delete_and_machine_sets_make_no_machine_first(scene: Any) -> None:
    on_delete = {"strategy": {"type": "OnDelete"}}
    assert await scene.warned(scene.many(4, rollout=on_delete)) == []
    assert await scene.warned(scene.many(4, kind="MachineSet")) == []


@pytest.mark.parametrize(
    ("replicas", "limits", "advice"),
    [
        (3, {}, "Set maxSurge to 0 in spec.rollout.strategy.rollingUpdate."),
        (1, {}, "Keep the devices of one Machine free; maxSurge 0 requires 3 replicas or more."),
        (3, {"maxSurge": 0}, ""),
    ],
)
async def test_a_control_plane_has_advice_of_its_own(
    scene: Any, replicas: int, limits: Any, advice: str
) -> None:
    for number in range(4 - replicas):
        scene.vm(f"other-{number}", "n1" if number < 2 else "n2")
    said = await scene.warned(scene.many(replicas, kind="KubeadmControlPlane", limits=limits))
    assert [one.endswith(advice) for one in said] == ([True] if advice else [])


async def test_what_others_are_still_to_get_is_told(scene: Any) -> None:
    """Two sets in one file: of the first there are no VMs yet when the second one comes."""
    scene.knows("cluster_deployments", scene.many(3, name="first"))
    [said] = await scene.warned(scene.many(2, limits=NO_SURGE))
    assert said.startswith("The machines of pools ")
    assert "default/first (3)" in said
    assert "workers (2)" in said
    assert await scene.warned(scene.many(1, limits=NO_SURGE)) == []
    # A MachineSet of a deployment is the deployment's.
    owner = {"apiVersion": "a", "kind": "MachineDeployment", "name": "x", "uid": "1"}
    owned = scene.many(3, kind="MachineSet", ownerReferences=[owner | {"controller": True}])
    scene.knows("cluster_sets", owned)
    assert await scene.warned(scene.many(1, limits=NO_SURGE)) == []


async def test_sets_of_other_namespaces_count_and_are_not_named(scene: Any) -> None:
    meta = {"metadata": {"name": "c", "namespace": "secret"}}
    scene.knows("kubevirt_clusters", {**meta, "spec": {}})
    scene.knows("kubevirt_templates", scene.template() | {"metadata": {"name": "gpu", **SECRET}})
    scene.knows("cluster_deployments", scene.many(3, name="project-x", **SECRET))
    [said] = await scene.warned(scene.many(2, limits=NO_SURGE))
    assert "set 1 of other namespaces (3)" in said
    assert "secret" not in said
    assert "project-x" not in said


async def test_a_set_of_a_deployment_is_judged_with_that(scene: Any) -> None:
    owner = {"apiVersion": "a", "kind": "MachineDeployment", "name": "x", "uid": "1"}
    owned = scene.many(9, kind="MachineSet", ownerReferences=[owner | {"controller": True}])
    assert await scene.refused(owned) == []


async def test_vms_of_another_cluster_are_not_judged(scene: Any) -> None:
    scene.template("away", machine={"infraClusterSecretRef": {"name": "kubeconfig"}})
    assert await scene.warned(scene.many(99, "away")) == [elsewhere("away")]
    scene.cluster(secret="kubeconfig")
    assert len(await scene.warned(scene.many(99))) == 1


async def test_the_cluster_is_known_by_its_label_too(scene: Any) -> None:
    scene.cluster("else", secret="kubeconfig", **{"cluster.x-k8s.io/cluster-name": "c"})
    [said] = await scene.warned(scene.many(99))
    assert "made in another cluster" in said


async def test_where_the_cluster_is_not_known_nothing_is_refused(scene: Any) -> None:
    raw = scene.many(5)
    for part in (raw["spec"], raw["spec"]["template"]["spec"]):
        part["clusterName"] = "later"
    [said] = await scene.warned(raw)
    assert said.startswith(f"spec.replicas: {RESOURCE}: 1 requested by each of 5 VMs")


async def test_a_template_that_is_not_there_is_told(scene: Any) -> None:
    [said] = await scene.warned(scene.many(5, "typo"))
    assert (
        said
        == "KubevirtMachineTemplate typo is not known, so the devices of its VMs were not checked."
    )


async def test_without_devices_nothing_is_said(scene: Any) -> None:
    scene.template("plain", gpus=0)
    assert await scene.warned(scene.many(99, "plain")) == []


async def test_displays_and_lists_are_those_that_the_vms_will_have(scene: Any) -> None:
    """A VM of several vGPUs gets one display, and each resource in one list, when it is made."""
    first, second = ({"name": f"g{n}", "deviceName": RESOURCE} for n in range(2))
    shows = {"virtualGPUOptions": {"display": {"enabled": True}}}
    for devices in ({"gpus": [first | shows, second]}, {"gpus": [first], "hostDevices": [second]}):
        scene.template("two", guest={"domain": {"devices": devices}})
        assert await scene.refused(scene.many(2, "two", limits=NO_SURGE)) == []


async def test_what_no_vm_may_have_is_refused_of_the_template(scene: Any) -> None:
    shows = {"virtualGPUOptions": {"display": {"enabled": True}}}
    entries = [{"name": f"g{n}", "deviceName": RESOURCE} | shows for n in range(2)]
    scene.template("shows", guest={"domain": {"devices": {"gpus": entries}}})
    path = "spec.template.spec.infrastructureRef.name"
    assert await scene.refused(scene.many(1, "shows")) == [(path, "MultipleDisplays")]
    same = [{"name": "gpu", "deviceName": RESOURCE}] * 2
    scene.template("same", guest={"domain": {"devices": {"gpus": same}}})
    assert await scene.refused(scene.many(1, "same")) == [(path, "DuplicateDeviceName")]
    scene.template("many", gpus=65)
    assert await scene.refused(scene.many(1, "many")) == [(path, "TooManyDevices")]


async def test_vms_in_a_namespace_of_their_own(scene: Any) -> None:
    """The template of a VM may name it."""
    scene.template(vm={"namespace": "vms"})
    for number in range(4):
        scene.machine(f"w-{number}", "n1" if number < 2 else "n2")
    # Those in the Machines' namespace are none of theirs.
    assert await scene.refused(scene.many(4, version="v1.35.0"), scene.many(4)) == TOO_FEW


async def test_a_scale_is_judged_like_the_set(scene: Any) -> None:
    scene.knows("cluster_deployments", scene.many(1))
    old, new = (msgspec.convert({"spec": {"replicas": count}}, sets.Scale) for count in (1, 5))
    request = Request(Operation.UPDATE, "workers", "default", Requester("a"), old=old, new=new)
    verdict = sets.judge_deployment_scale(request, scene.world, frozenset())
    assert [one.because for one in verdict.refusals] == ["InsufficientDevices"]


async def test_a_machine_that_is_being_deleted_leaves_its_device(scene: Any) -> None:
    for number in range(4):
        scene.machine(f"w-{number}", "n1" if number < 2 else "n2")
    assert await scene.refused(scene.many(5), scene.many(4)) == TOO_FEW
    found = next(iter(scene.world.cluster_machines))
    going = structs.replace(found.metadata, deletion_timestamp="2026-11-26T00:00:00Z")
    scene.world.cluster_machines.put(structs.replace(found, metadata=going))
    assert await scene.refused(scene.many(5), scene.many(4)) == TOO_FEW
    assert "requested by each of 2 VMs, and there is enough for 1" in scene.message


async def test_what_is_in_the_same_file_is_waited_for(scene: Any) -> None:
    """Its template, and the cluster that may say that VMs are elsewhere."""

    def known(**more: Any) -> bool:
        new = MACHINE_DEPLOYMENTS.decode(msgspec.json.encode(scene.many(1, **more)))
        request = Request(Operation.CREATE, "workers", "default", Requester("a"), new=new)
        return sets.knows(request, scene.world)

    assert known()
    assert not known(template="later")
    scene.world.kubevirt_clusters.drop(Key("default", "c"))
    assert not known()
