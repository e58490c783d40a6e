"""Pools, replica sets, and instances without a VM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from laneway.api import decode
from laneway.core import keys
from laneway.core.requesters import User, written
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, Devices, mark_of

GPU = "nvidia.com/GA100_A100"
LABELS = {"pool": "p"}


def pool(
    entries: Sequence[Mapping[str, Any]], replicas: int | None = None, strategy: str = "Always"
) -> dict[str, Any]:
    spec = {"domain": {"devices": {"hostDevices": list(entries)}}}
    vm = {"runStrategy": strategy, "template": {"spec": spec}}
    found: dict[str, Any] = {
        "kind": "VirtualMachinePool",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "virtualMachineTemplate": {"spec": vm},
        },
    }
    if replicas is not None:
        found["spec"]["replicas"] = replicas
    return found


def replica_set(entries: Sequence[Mapping[str, Any]], replicas: int) -> dict[str, Any]:
    spec = {"domain": {"devices": {"hostDevices": list(entries)}}}
    return {
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "replicas": replicas,
            "template": {"spec": spec},
        },
    }


ANY = {"name": "a", "deviceName": GPU}


def member(cluster: Any, name: str) -> None:
    """A VM of the pool, running."""
    raw = cluster.vm(ANY, name=name)
    raw["metadata"]["labels"] = LABELS
    cluster.runs(raw, "n1")


@pytest.mark.parametrize("kind", [pool, replica_set])
def test_as_many_vms_as_there_are_devices_for(cluster: Any, kind: Any) -> None:
    for number in (8, 9):
        cluster.pci("n1", f"0000:0{number}:00.0")
    assert cluster.judge(kind([ANY], 2)).allowed
    verdict = cluster.judge(kind([ANY], 3))
    assert [one.reason for one in verdict.refusals] == ["InsufficientDevices"]
    assert "there is enough for 2" in verdict.refusals[0].words


@pytest.mark.parametrize("kind", [pool, replica_set])
def test_more_vms_request_the_difference(cluster: Any, kind: Any) -> None:
    for number in (7, 8, 9):
        cluster.pci("n1", f"0000:0{number}:00.0")
    for name in ("p-0", "p-1"):
        member(cluster, name)
    assert cluster.judge(kind([ANY], 3), kind([ANY], 2)).allowed
    assert cluster.reasons(kind([ANY], 4), kind([ANY], 2)) == ["InsufficientDevices"]


@pytest.mark.parametrize("kind", [pool, replica_set])
def test_fewer_vms_and_other_changes_are_not_judged(cluster: Any, kind: Any) -> None:
    cluster.node("n1")
    assert cluster.judge(kind([ANY], 1), kind([ANY], 2)).allowed
    assert cluster.judge(kind([ANY], 2), kind([ANY], 2)).allowed
    assert cluster.judge(kind([ANY], 2), deleted=True).allowed


def test_a_pool_has_one_vm_by_default(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    assert cluster.judge(pool([ANY])).allowed
    cluster.runs(cluster.vm(gpu, name="other"), "n1")
    assert cluster.reasons(pool([ANY])) == ["InsufficientDevices"]
    assert cluster.judge(pool([ANY], 0)).allowed


def test_a_pool_that_is_not_to_run_is_warned(cluster: Any) -> None:
    cluster.pci("n1", "0000:08:00.0")
    stopped = cluster.judge(pool([ANY], 2, "Halted"))
    assert stopped.allowed
    assert "2 VMs" in stopped.warnings[0]
    for paused in (pool([ANY], 2), replica_set([ANY], 2)):
        paused["spec"]["paused"] = True
        assert cluster.judge(paused).allowed


def test_a_pool_of_another_users_devices(cluster: Any) -> None:
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    assert cluster.reasons(pool([ANY], 1)) == ["ClaimedByOther"]


CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
POOL = {"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool"}
SET = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet"}


def one_of(cluster: Any, maker: dict[str, Any], **owner: Any) -> dict[str, Any]:
    """What KubeVirt's controller makes of a pool or a replica set."""
    raw = cluster.vm(ANY) if maker is POOL else instance(cluster, ANY)
    raw["metadata"]["ownerReferences"] = [
        {**maker, "name": "p", "uid": "u", "controller": True, **owner}
    ]
    return raw


@pytest.mark.parametrize("maker", [POOL, SET])
def test_what_kubevirt_makes_of_a_pool_was_granted_with_the_pool(cluster: Any, maker: Any) -> None:
    cluster.kubevirt("kubevirt")
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    raw = one_of(cluster, maker)
    verdict = cluster.judge(raw, user=CONTROLLER)
    assert verdict.allowed
    assert not verdict.warnings
    assert cluster.asked == []


@pytest.mark.parametrize("maker", [POOL, SET])
def test_who_says_to_be_of_a_pool_is_not_believed(cluster: Any, maker: Any) -> None:
    cluster.kubevirt("kubevirt")
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    raw = one_of(cluster, maker)
    for other in ("alice", CONTROLLER.replace(":kubevirt:", ":default:")):
        assert cluster.reasons(raw, user=other) == ["ClaimedByOther"]


@pytest.mark.parametrize(
    "owner", [{"controller": False}, {"kind": "ReplicaSet"}, {"apiVersion": "example.org/v1"}]
)
def test_what_kubevirt_makes_for_others_is_judged_for_kubevirt(cluster: Any, owner: Any) -> None:
    cluster.kubevirt("kubevirt")
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    assert cluster.reasons(one_of(cluster, POOL, **owner), user=CONTROLLER) == ["ClaimedByOther"]


def test_where_kubevirt_is_not_known_no_account_is_its_controller(cluster: Any) -> None:
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    raw = one_of(cluster, POOL)
    assert cluster.reasons(raw, user=CONTROLLER) == ["ClaimedByOther"]
    for namespace in ("kubevirt", "other"):
        cluster.kubevirt(namespace)
    assert cluster.reasons(raw, user=CONTROLLER) == ["ClaimedByOther"]


def test_a_vm_of_a_pool_is_refused_what_is_not_there(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    cluster.pci("n1", "0000:08:00.0", claimed="bob")
    cluster.runs(cluster.vm(ANY, name="other"), "n1")
    assert cluster.reasons(one_of(cluster, POOL), user=CONTROLLER) == ["InsufficientDevices"]


def test_a_pool_is_judged_for_the_group_members_of_its_devices(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", group="7")
    cluster.pci("n1", "0000:08:00.1", "nvidia.com/AUDIO", group="7", claimed="bob")
    assert cluster.reasons(pool([cluster.entry(gpu)], 1)) == ["ClaimedByOther"]


def test_a_pool_is_warned_of_ignored_fields_and_its_vms_are_not(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    cluster.pci("n1", "0000:08:00.0")
    raw = pool([ANY], 1)
    raw["spec"]["virtualMachineTemplate"]["spec"]["instancetype"] = {"name": "gn1.large"}
    assert "instancetype 'gn1.large'" in cluster.judge(raw).warnings[0]
    assert cluster.judge(raw, raw).warnings == ()
    vm = one_of(cluster, POOL)
    vm["spec"]["instancetype"] = {"name": "gn1.large"}
    assert cluster.judge(vm, user=CONTROLLER).warnings == ()


def instance(cluster: Any, *devices: Any, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    raw = cluster.vm(*devices)
    meta: dict[str, Any] = dict(raw["metadata"])
    if owner is not None:
        meta["ownerReferences"] = [{"apiVersion": "kubevirt.io/v1", "controller": True, **owner}]
    return {
        "kind": "VirtualMachineInstance",
        "metadata": meta,
        "spec": raw["spec"]["template"]["spec"],
    }


def test_an_instance_without_a_vm_is_judged(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed=None)
    assert cluster.reasons(instance(cluster, gpu)) == ["DeviceNotClaimed"]


@pytest.mark.parametrize(("noted", "reasons"), [("bob", []), ("alice", ["ClaimedByOther"])])
def test_an_instance_may_have_what_those_may_who_gave_it_to_the_vm(
    cluster: Any, noted: str, reasons: list[str]
) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    owning(cluster, gpu, annotations=noting(noted))
    assert cluster.reasons(instance(cluster, gpu, owner=OWNED), user=CONTROLLER) == reasons


def test_the_rights_are_those_of_the_noted_users_with_their_groups(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    owning(cluster, gpu, annotations=noting("alice", groups=("team",)))
    cluster.granted.add(("pcideviceclaims", gpu))
    assert cluster.judge(instance(cluster, gpu, owner=OWNED), user=CONTROLLER).allowed
    (asked,) = cluster.asked
    assert (asked.verb, asked.name) == ("use", gpu)
    assert (asked.subject.username, asked.subject.groups) == ("alice", ("team",))


def test_the_instance_of_a_vm_that_was_not_judged_has_no_requesters(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    free = cluster.pci("n1", "0000:09:00.0", resource="x/y", claimed="")
    owning(cluster, gpu)
    (refusal,) = cluster.judge(instance(cluster, gpu, owner=OWNED), user=CONTROLLER).refusals
    assert refusal.reason == "ClaimedByOther"
    assert f"kubectl annotate --overwrite vm NAME {keys.ANNOTATION_REQUESTERS}=me" in refusal.words
    owning(cluster, free)
    assert cluster.judge(instance(cluster, free, owner=OWNED), user=CONTROLLER).allowed


def test_a_vm_of_before_there_were_notes_keeps_what_was_admitted(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    usb = cluster.usb("n1", 11, claimed="carol")
    devices = decode(Devices, cluster.vm(gpu, usb)["spec"]["template"]["spec"]["domain"]["devices"])
    owning(cluster, gpu, usb, annotations={ANNOTATION_ADMITTED: mark_of(devices)})
    assert cluster.judge(instance(cluster, gpu, usb, owner=OWNED), user=CONTROLLER).allowed


def test_an_instance_of_a_device_that_is_not_claimed_is_not_made(cluster: Any) -> None:
    """Its VM was started by what no webhook sees, such as a change of its status."""
    gpu = cluster.pci("n1", "0000:08:00.0", claimed=None)
    owning(cluster, gpu, strategy="Manual")
    assert cluster.reasons(instance(cluster, gpu, owner=OWNED)) == ["DeviceNotClaimed"]


def test_who_is_lent_the_name_of_a_machine_gets_what_the_vm_gets(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    raw = cluster.vm()
    raw["metadata"]["uid"] = "u"
    cluster.there(raw)
    owner = {"kind": "VirtualMachine", "name": "vm", "uid": "u"}
    assert cluster.reasons(instance(cluster, gpu, owner=owner)) == ["ClaimedByOther"]


def noting(user: str, groups: Sequence[str] = ()) -> dict[str, str]:
    """The annotation that says which users wrote a VM."""
    return {keys.ANNOTATION_REQUESTERS: written([User(user, tuple(groups))])}


OWNED = {"kind": "VirtualMachine", "name": "vm", "uid": "u"}


def owning(cluster: Any, *devices: Any, **more: Any) -> None:
    raw = cluster.vm(*devices, **more)
    raw["metadata"]["uid"] = "u"
    cluster.there(raw)


def test_harvester_encodes_names_of_devices_on_nodes_with_dots(cluster: Any) -> None:
    """Its mutator of instances does, whatever the VM calls them."""
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1.example.com", "0000:08:00.0")
    owning(cluster, gpu, annotations=noting("alice"))
    made = instance(cluster, ("NYYS4ZLYMFWXA3DF", GPU), owner=OWNED)
    assert cluster.judge(made, user=CONTROLLER).allowed
    # Others may make up an instance of another user's VM, but not what it has.
    assert cluster.reasons(made, user="bob") == ["ClaimedByOther"]


def test_kubevirt_fills_in_displays_by_a_preference(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    asked = {"name": cluster.pci("n1", "0000:08:00.0"), "deviceName": GPU}
    owning(cluster, gpus=[asked], annotations=noting("alice"))
    made = instance(cluster, owner=OWNED)
    shown = {**asked, "virtualGPUOptions": {"display": {"enabled": False}}}
    made["spec"]["domain"]["devices"]["gpus"] = [shown]
    assert cluster.judge(made, user=CONTROLLER).allowed


def test_kubevirt_is_believed_what_the_vm_requests_and_no_more(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0")
    usb = cluster.usb("n1", 11)
    owning(cluster, gpu)
    for devices in ((gpu, ("b", GPU)), (usb,)):
        made = instance(cluster, *devices, owner=OWNED)
        assert not cluster.judge(made, user=CONTROLLER).allowed


def test_an_instance_waits_until_its_vm_is_known(cluster: Any) -> None:
    cluster.kubevirt("kubevirt")
    gpu = cluster.pci("n1", "0000:08:00.0", claimed="bob")
    owning(cluster, gpu, annotations=noting("bob"))
    made = instance(cluster, gpu, owner={**OWNED, "uid": "now"})
    assert cluster.reasons(made, user=CONTROLLER) == ["ClaimedByOther"]
    assert not cluster.knows(made, user=CONTROLLER)
    assert cluster.knows(instance(cluster, gpu, owner=OWNED), user=CONTROLLER)


def test_an_instance_is_judged_once(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", claimed=None)
    raw = instance(cluster, gpu)
    assert cluster.judge(raw, instance(cluster)).allowed
