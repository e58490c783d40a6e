"""Pods that request devices, and for which users: reviewed as the API server has them reviewed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kapilite.patches import patch
from laneway.admission import review
from laneway.admission.indexes import INDEXERS
from laneway.admission.judging import Judging
from laneway.admission.kinds import KINDS
from laneway.admission.metrics import AdmissionMetrics
from laneway.admission.verdict import Granted
from laneway.admission.world import World
from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceClaimStatus,
    PCIDeviceStatus,
    decode,
)
from laneway.core import keys
from laneway.core.requesters import User, read, written
from laneway.kube.kubevirt import ANNOTATION_ADMITTED as ADMITTED
from laneway.kube.kubevirt import KubeVirt, VirtualMachine, VirtualMachineInstance, mark_of
from laneway.kube.store import Store
from support.reviewing import review as question

NIC, FREE = "intel.com/NIC", "intel.com/FREE"
KEY = keys.ANNOTATION_REQUESTERS
CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
REPLICASETS = "system:serviceaccount:kube-system:replicaset-controller"
VM = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "m"}
INSTANCE = {**VM, "kind": "VirtualMachineInstance", "uid": "i"}


class Rights:
    """What the API server says of rights: those that a test gives."""

    def __init__(self) -> None:
        self.given: set[tuple[str, str]] = set()
        """User or group, and claim."""

    async def granted(self, requester: Any, accesses: Any) -> Any:
        def has(access: Any) -> bool:
            one = access.subject or requester
            return any((who, access.name) in self.given for who in (one.username, *one.groups))

        return _Rights(frozenset(filter(has, accesses)))


class _Rights(msgspec.Struct):
    granted: Granted
    warnings: tuple[str, ...] = ()


class Admission:
    """The webhook, of a cluster in which alice has claimed a NIC of n1."""

    def __init__(self) -> None:
        stores: Any = {name: Store(indexers) for name, indexers in INDEXERS.items()}
        self.world = World(**stores)
        for name, resource, user in (("nic", NIC, "alice"), ("free", FREE, "")):
            self.world.pci_devices.put(
                PCIDevice(
                    metadata=ObjectMeta(name=name),
                    status=PCIDeviceStatus(node_name="n1", resource_name=resource),
                )
            )
            self.world.claims.put(
                PCIDeviceClaim(
                    metadata=ObjectMeta(name=name),
                    spec=PCIDeviceClaimSpec(address="", node_name="n1", user_name=user),
                    status=PCIDeviceClaimStatus(resource_name=resource),
                )
            )
        self.world.installations.put(
            KubeVirt(metadata=ObjectMeta(name="kubevirt", namespace="kubevirt"))
        )
        self.rights = Rights()
        metrics = AdmissionMetrics(CollectorRegistry())
        rights: Any = self.rights
        self.judging = Judging(KINDS, self.world, rights, metrics)

    async def write(
        self,
        new: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        user: str,
        mutates: bool = True,
        part: str = "",
    ) -> tuple[dict[str, Any], list[str]]:
        """What is stored, and the reasons for which it is not."""
        group = new["apiVersion"].rpartition("/")[0]
        resource = f"{new['kind'].lower()}s"
        obj = copy.deepcopy(dict(new))

        def asked() -> review.Question:
            body = question(resource, new=obj, old=old, group=group)
            body["request"]["userInfo"] = {"username": user, "groups": [f"{user}s"]}
            body["request"]["namespace"] = "team"
            body["request"]["subResource"] = part
            body["request"]["operation"] = "CREATE" if old is None else "UPDATE"
            return review.read(msgspec.json.encode(body))

        if mutates:
            changed = await self.judging.mutate(asked())
            operations = [dict(one) for one in changed.answer.patch]
            obj = patch.apply(patch.JSON, obj, operations)
        denial = (await self.judging.validate(asked())).answer.denial
        return obj, [] if denial is None else [one.reason for one in denial.causes]


@pytest.fixture
def admission() -> Admission:
    return Admission()


def pod(*limits: str, init: str = "", note: str | None = None, **meta: Any) -> dict[str, Any]:
    if note is not None:
        meta["annotations"] = {KEY: note}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"limits": {one: "1"}}} for one in limits]
        or [{"name": "c"}]
    }
    if init:
        spec["initContainers"] = [{"name": "i", "resources": {"limits": {init: "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", **meta},
        "spec": spec,
    }


def make_vm(
    *resources: str, kind: str = "VirtualMachine", owner: Any = None, **meta: Any
) -> dict[str, Any]:
    devices = [{"name": f"d{at}", "deviceName": one} for at, one in enumerate(resources)]
    spec: dict[str, Any] = {"domain": {"devices": {"hostDevices": devices}}}
    if kind == "VirtualMachine":
        spec = {"runStrategy": "Always", "template": {"spec": spec}}
    if owner:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    named = {"name": "vm", "namespace": "team", **meta}
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": named, "spec": spec}


def users(obj: Mapping[str, Any]) -> list[str]:
    return [one.username for one in read(obj["metadata"].get("annotations") or {})]


@pytest.mark.parametrize("asks", [pod(NIC), pod(init=NIC), pod(FREE, NIC)])
@pytest.mark.parametrize(("user", "reasons"), [("alice", []), ("bob", ["ClaimedByOther"])])
async def test_a_pod_has_what_is_claimed_for_its_author(
    admission: Admission, asks: dict[str, Any], user: str, reasons: list[str]
) -> None:
    stored, found = await admission.write(asks, user=user)

    assert found == reasons
    assert read(stored["metadata"]["annotations"]) == (User(user, (f"{user}s",)),)


@pytest.mark.parametrize(
    ("whose", "name"), [("bob", "nic"), ("bobs", ""), ("system:serviceaccount:team:default", "nic")]
)
async def test_who_was_granted_the_use_of_the_claim_has_it_too(
    admission: Admission, whose: str, name: str
) -> None:
    admission.rights.given.add((whose, name))

    assert (await admission.write(pod(NIC), user="bob"))[1] == []


async def test_the_pods_of_a_deployment_have_what_their_account_may_use(
    admission: Admission,
) -> None:
    trainers = pod(NIC)
    trainers["spec"]["serviceAccountName"] = "trainer"

    assert (await admission.write(trainers, user=REPLICASETS))[1] == ["ClaimedByOther"]
    admission.rights.given.add(("system:serviceaccounts:team", "nic"))
    assert (await admission.write(trainers, user=REPLICASETS))[1] == []


@pytest.mark.parametrize("asks", [pod(), pod("rdma/hca"), pod("nvidia.com/gpu")])
async def test_pods_that_request_nothing_of_laneways_stay_as_they_are(
    admission: Admission, asks: dict[str, Any]
) -> None:
    assert await admission.write(asks, user="bob") == (asks, [])


async def test_what_is_for_everybody_is_for_pods_too(admission: Admission) -> None:
    assert (await admission.write(pod(FREE), user="bob"))[1] == []


FORGED = written([User("alice")])


@pytest.mark.parametrize("note", [FORGED, "[]", "nonsense"])
async def test_a_note_of_ones_own_is_replaced(admission: Admission, note: str) -> None:
    stored, _ = await admission.write(pod(FREE, note=note), user="bob")
    assert users(stored) == ["bob"]
    stored, _ = await admission.write(pod(note=note), user="bob")
    assert KEY not in stored["metadata"]["annotations"]


async def test_a_note_of_ones_own_is_refused_where_it_was_not_replaced(
    admission: Admission,
) -> None:
    found = await admission.write(pod(FREE, note=FORGED), user="bob", mutates=False)

    assert found[1] == ["AnnotationReserved"]


@pytest.mark.parametrize("part", ["", "status", "resize", "ephemeralcontainers"])
@pytest.mark.parametrize("note", [FORGED, None])
async def test_the_note_of_a_pod_never_changes(
    admission: Admission, part: str, note: str | None
) -> None:
    bobs = pod(FREE, note=written([User("bob")]))

    changed = await admission.write(pod(FREE, note=note), bobs, user="bob", part=part)
    assert changed[1] == ["AnnotationReserved"]
    labelled = {**bobs, "metadata": {**bobs["metadata"], "labels": {"a": "b"}}}
    assert (await admission.write(labelled, bobs, user="bob", part=part))[1] == []


async def test_a_binding_brings_no_note(admission: Admission) -> None:
    """The API server would put its annotations on the pod."""
    binding = {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {KEY: FORGED}}}

    assert (await admission.write(binding, user="bob", part="binding"))[1] == ["AnnotationReserved"]


async def started(admission: Admission, vm: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The pod that KubeVirt makes for the instance of a VM that is stored like this."""
    admission.world.vms.put(decode(VirtualMachine, vm))
    made, reasons = await admission.write(
        make_vm(NIC, kind="VirtualMachineInstance", owner=VM, uid="i"), user=CONTROLLER
    )
    assert reasons == more.get("reasons", [])
    admission.world.instances.put(decode(VirtualMachineInstance, made))
    launcher = pod(NIC, ownerReferences=[{**INSTANCE, "controller": True}])
    stored, admission_reasons = await admission.write(launcher, user=more.get("by", CONTROLLER))
    assert admission_reasons == more.get("then", [])
    return stored


NOBODYS = {"reasons": ["ClaimedByOther"], "then": ["ClaimedByOther"]}


async def test_the_note_goes_from_the_vm_to_its_pod(admission: Admission) -> None:
    vm, reasons = await admission.write(make_vm(NIC, uid="m"), user="alice")

    assert not reasons
    assert users(await started(admission, vm)) == ["alice"]


async def test_a_vm_that_was_stored_unseen_gets_no_instance(admission: Admission) -> None:
    await started(admission, make_vm(NIC, uid="m"), **NOBODYS)


async def test_who_says_to_make_the_pod_of_an_instance_is_not_believed(
    admission: Admission,
) -> None:
    vm, _ = await admission.write(make_vm(NIC, uid="m"), user="alice")

    stored = await started(admission, vm, by="bob", then=["ClaimedByOther"])

    assert users(stored) == ["bob"]


async def test_an_instance_without_a_vm_is_whoevers_makes_it(admission: Admission) -> None:
    made, reasons = await admission.write(make_vm(NIC, kind="VirtualMachineInstance"), user="bob")

    assert users(made) == ["bob"]
    assert reasons == ["ClaimedByOther"]


@pytest.mark.parametrize("user", ["bob", CONTROLLER])
async def test_an_instance_without_devices_brings_no_note(admission: Admission, user: str) -> None:
    """KubeVirt would copy it to a pod, which its other limits may have request devices."""
    forged = make_vm(kind="VirtualMachineInstance", annotations={KEY: FORGED})

    found = await admission.write(forged, user=user, mutates=False)

    assert found[1] == ["AnnotationReserved"]


async def test_a_pod_gets_for_an_instance_no_more_than_the_instance_lists(
    admission: Admission,
) -> None:
    """A user who may edit a VM of alice's may have KubeVirt request more."""
    alices = make_vm(FREE, kind="VirtualMachineInstance", annotations={KEY: FORGED}, uid="i")
    admission.world.instances.put(decode(VirtualMachineInstance, alices))
    launcher = pod(FREE, NIC, ownerReferences=[{**INSTANCE, "controller": True}])

    assert (await admission.write(launcher, user=CONTROLLER))[1] == ["ClaimedByOther"]


def seen(vm: dict[str, Any]) -> dict[str, Any]:
    """A VM with the mark that admission has looked at its devices."""
    mark = mark_of(decode(VirtualMachine, vm).spec.template.spec.domain.devices)
    return {**vm, "metadata": {**vm["metadata"], "annotations": {ADMITTED: mark}}}


def without_first(vm: dict[str, Any]) -> dict[str, Any]:
    fewer = copy.deepcopy(vm)
    del fewer["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"][0]
    return fewer


FEWER = without_first(make_vm(FREE, NIC))


@pytest.mark.parametrize("written", [seen(make_vm(FREE, NIC)), seen(FEWER), FEWER])
async def test_no_write_marks_devices_as_seen_that_were_not(
    admission: Admission, written: dict[str, Any]
) -> None:
    """A VM from before Laneway, of which bob takes a device or writes the mark."""
    unseen = make_vm(FREE, NIC)

    stored, reasons = await admission.write(written, unseen, user="bob")

    assert not reasons
    assert ADMITTED not in (stored["metadata"].get("annotations") or {})
    await started(admission, {**stored, "metadata": {**stored["metadata"], "uid": "m"}}, **NOBODYS)


async def test_a_mark_of_ones_own_is_refused_where_it_was_not_removed(
    admission: Admission,
) -> None:
    found = await admission.write(seen(make_vm(NIC)), make_vm(NIC), user="bob", mutates=False)

    assert found[1] == ["AnnotationReserved"]


async def test_a_user_who_adds_devices_is_noted_with_the_others(admission: Admission) -> None:
    first, _ = await admission.write(make_vm(NIC), user="alice")

    both, reasons = await admission.write(
        {**first, "spec": make_vm(NIC, FREE)["spec"]}, first, user="bob"
    )

    assert not reasons
    assert users(both) == ["alice", "bob"]
    fewer, _ = await admission.write({**both, "spec": make_vm(NIC)["spec"]}, both, user="carol")
    assert users(fewer) == ["alice", "bob"]
    none, _ = await admission.write({**both, "spec": make_vm()["spec"]}, both, user="carol")
    assert users(none) == []


async def test_who_does_not_know_of_the_note_leaves_it(admission: Admission) -> None:
    first, _ = await admission.write(make_vm(NIC), user="alice")

    again, reasons = await admission.write(make_vm(NIC), first, user="bob")

    assert not reasons
    assert users(again) == ["alice"]


async def test_who_writes_the_note_takes_the_devices_over_if_they_may(
    admission: Admission,
) -> None:
    first, _ = await admission.write(make_vm(NIC), user="alice")
    mine = make_vm(NIC, annotations={KEY: "me"})

    assert (await admission.write(mine, first, user="bob"))[1] == ["ClaimedByOther"]
    admission.rights.given.add(("bob", "nic"))
    over, reasons = await admission.write(mine, first, user="bob")
    assert not reasons
    assert users(over) == ["bob"]


async def test_the_note_of_a_vm_is_refused_where_it_was_not_replaced(
    admission: Admission,
) -> None:
    forged = make_vm(FREE, annotations={KEY: FORGED})

    found = await admission.write(forged, user="bob", mutates=False)

    assert found[1] == ["AnnotationReserved"]
