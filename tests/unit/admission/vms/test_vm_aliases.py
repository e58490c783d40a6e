"""Names that libvirt accepts: only on the instance, each its own, and known again."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kapilite.patches import patch
from laneway.admission.kinds import KINDS
from laneway.admission.request import Requester
from laneway.admission.review import Question
from laneway.admission.vms.aliases import aliases

NAME = "node1.example.com-000004001"
NIC = "intel.com/NIC"
CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"


@given(st.lists(st.text(alphabet="ab-._é2", min_size=1, max_size=4), max_size=8))
def test_every_name_that_libvirt_refuses_has_one_of_its_own(names: list[str]) -> None:
    found = aliases(names)
    after = [found.get(name, name) for name in names]
    assert all(one.isascii() and not {*one} & {".", " "} for one in after)
    assert len({*after}) == len({*names})


def test_a_name_without_dots_stays() -> None:
    assert aliases([NAME, "nic", "node1-example-com-000004001"]) == {
        NAME: "node1-example-com-000004001-2"
    }


def question(raw: dict[str, Any]) -> Question:
    return Question(
        version="v1",
        uid="1",
        group="kubevirt.io",
        resource="virtualmachineinstances",
        subresource="",
        name="vm",
        namespace="default",
        operation="CREATE",
        requester=Requester(CONTROLLER),
        object=msgspec.Raw(msgspec.json.encode(raw)),
        old_object=None,
    )


def test_the_instance_of_a_vm_is_known_by_the_names_of_the_vm(cluster: Any) -> None:
    """The VM keeps them; the instance is refused what the device lacks that they name."""
    cluster.kubevirt("kubevirt")
    cluster.pci("node1.example.com", "0000:04:00.1", NIC, claimed=None)
    raw = cluster.mutated(cluster.vm((NAME, NIC), strategy="Halted"))
    assert [one["name"] for one in cluster.devices(raw)] == [NAME]
    cluster.there({**raw, "metadata": {**raw["metadata"], "uid": "1"}})
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "1"}
    made = {
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": "vm",
            "namespace": "default",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": raw["spec"]["template"]["spec"],
    }
    change = KINDS["kubevirt.io", "virtualmachineinstances"].mutate(question(made), cluster.world)
    (operation,) = change.operations
    assert operation == {
        "op": "add",
        "path": "/spec/domain/devices/hostDevices",
        "value": [{"name": "node1-example-com-000004001", "deviceName": NIC}],
    }
    made = patch.apply(patch.JSON, made, [dict(operation)])
    (refusal,) = cluster.judge(made, user=CONTROLLER).refusals
    assert NAME in refusal.words
