"""The devices of a cluster as programs get them."""

from __future__ import annotations

from typing import Any

from laneway.api import SRIOVGPUDevice, decode
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import (
    Consumer,
    ConsumerKind,
    Demand,
    DeviceFact,
    Facts,
    NodeFact,
    Phase,
)
from laneway.core.ledger.ledger import Ledger
from laneway.views.capacity import shown
from laneway.views.capacity_document import creatable, free_by_type, stocks_document

A2 = "nvidia.com/NVIDIA_A2-4Q"
NODES = (NodeFact("n1"), NodeFact("n2", closed="the node is cordoned"))


def vm(name: str, count: int, phase: Phase = Phase.PENDING) -> Demand:
    return Demand(Consumer(ConsumerKind.VM, "default", name), phase, {A2: count})


def ledger(*demands: Demand) -> Ledger:
    devices = tuple(DeviceFact(node, A2, f"{node}-{n}") for node in ("n1", "n2") for n in range(2))
    return build(Facts(devices, demands, NODES))


def test_a_type_counts_only_where_a_vm_can_start() -> None:
    """R5: cordoned nodes and those that are not ready were counted as free."""
    assert free_by_type(ledger()) == {A2: "2"}
    document = stocks_document(ledger(), shown(ledger(), ()), {})
    [row] = document["types"]
    assert (row["total"], row["healthy"], row["free"], row["unhealthy"]) == (4, 4, 2, 2)


def test_requests_beyond_what_there_is_are_no_negative_number() -> None:
    """R3: Harvester's endpoint answered -1, and Rancher's form then checked nothing."""
    short = ledger(vm("a", 2), vm("b", 2, Phase.STOPPED))
    assert free_by_type(short) == {A2: "0"}
    document = stocks_document(short, shown(short, ()), None)
    assert document["short"] == [
        {
            "kind": "VirtualMachine",
            "namespace": "default",
            "name": "b",
            "phase": "stopped",
            "missing": {A2: 2},
        }
    ]
    numbers = (one for row in document["resources"] for one in row.values())
    assert min(one for one in numbers if isinstance(one, int)) == 0


def test_what_could_be_created_is_told_also_of_types_without_a_device() -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "n1-000008000"},
        "spec": {"nodeName": "n1", "address": "0000:08:00.0"},
        "status": {"fits": {"NVIDIA A2-4Q": 2, "NVIDIA A2-8Q": 1, "NVIDIA A2-16Q": 0}},
    }
    more = creatable([decode(SRIOVGPUDevice, body)])
    document = stocks_document(ledger(), shown(ledger(), ()), more)
    rows = [(one["node"], one["resource"], one["creatable"]) for one in document["resources"]]
    assert rows == [("n1", A2, 2), ("n2", A2, 0)]
    other = {"node": "n1", "resource": "nvidia.com/NVIDIA_A2-8Q", "creatable": 1}
    assert document["creatable"] == [other]
    assert [one["creatable"] for one in document["types"]] == [2, 1]
    unknown = stocks_document(ledger(), shown(ledger(), ()), None)
    assert {one["creatable"] for one in (*unknown["resources"], *unknown["types"])} == {None}
    assert unknown["creatable"] is None
