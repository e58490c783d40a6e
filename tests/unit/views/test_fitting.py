"""On which nodes a VM fits, and why not on the others."""

from __future__ import annotations

from typing import Any

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
from laneway.core.ledger.ledger import Ledger, State
from laneway.views.fitting import Cause, Site, Supply, Wanted, fitting, supplies

VGPU, NIC = "nvidia.com/NVIDIA_A2-4Q", "intel.com/I350"
A, B = (Consumer(ConsumerKind.VM, namespace, "vm") for namespace in ("one", "two"))


def ledger(*demands: Demand, closed: str = "") -> Ledger:
    """Node 1 has two vGPUs and a network card, of which `A` holds what it runs with."""
    owners = {one.consumer for one in demands if one.phase is Phase.RUNNING}
    devices = (
        DeviceFact("n1", VGPU, "n1-a", owner=A if A in owners else None),
        DeviceFact("n1", VGPU, "n1-b"),
        DeviceFact("n1", NIC, "n1-c"),
        DeviceFact("n2", VGPU, "n2-a"),
    )
    nodes = (NodeFact("n1", {"zone": "x"}), NodeFact("n2", closed=closed))
    return build(Facts(devices, demands, nodes))


def rows(found: Ledger, wanted: Wanted, **supply: Any) -> dict[str, Site]:
    answer = fitting(found, wanted, supply.get("cpu", {}), supply.get("memory", {}))
    assert answer.nodes == len(answer.sites)
    assert answer.fits == sum(one.fits for one in answer.sites)
    return {one.node: one for one in answer.sites}


def test_a_node_fits_that_has_all_of_it_together() -> None:
    found = rows(ledger(), Wanted({VGPU: 2, NIC: 1}))
    assert list(found) == ["n1", "n2"]
    assert found["n1"].fits
    assert {*found["n2"].causes} == {Cause("devices", NIC, 1, 0), Cause("devices", VGPU, 2, 1)}


def test_each_node_has_its_cells_in_the_order_of_what_is_requested() -> None:
    answer = fitting(ledger(), Wanted({VGPU: 2, NIC: 1}), {}, {})
    assert answer.resources == [(NIC, 1), (VGPU, 2)]
    for site in answer.sites:
        assert [(one.resource, one.wanted) for one in site.cells] == answer.resources


def test_equal_names_in_two_namespaces_are_two_users_of_devices() -> None:
    running = Demand(A, Phase.RUNNING, {VGPU: 1}, node="n1")
    kept = Demand(B, Phase.STOPPED, {VGPU: 1}, last=("n1-b",))
    cell = rows(ledger(running, kept), Wanted({VGPU: 1}))["n1"].cells[0]
    assert (cell.total, cell.free) == (2, 0)
    assert {(one.consumer, one.state, one.devices) for one in cell.users} == {
        (A, State.HELD, 1),
        (B, State.RESERVED, 1),
    }


def test_what_a_vm_has_itself_is_free_for_it() -> None:
    running = Demand(A, Phase.RUNNING, {VGPU: 1}, node="n1")
    others = rows(ledger(running), Wanted({VGPU: 2}))
    own = rows(ledger(running), Wanted({VGPU: 2}, vm=A))
    assert not others["n1"].fits
    assert own["n1"].fits
    assert own["n1"].cells[0].users == ()


def test_each_reason_against_a_node_is_named() -> None:
    wanted = Wanted({VGPU: 1}, nodes=frozenset({"n1"}), selector={"zone": "x"}, cpu=3000, memory=8)
    cpu = supplies({"n1": 4000, "n2": 4000}, [("n1", 500), ("n2", 2000), ("gone", 1)])
    found = rows(
        ledger(closed="the node is cordoned"), wanted, cpu=cpu, memory={"n2": Supply(9, 5)}
    )
    assert found["n1"].fits
    assert found["n1"].cpu == Supply(4000, 500)
    assert found["n1"].memory is None
    kinds = {one.kind: one for one in found["n2"].causes}
    assert kinds["closed"].subject == "the node is cordoned"
    assert kinds["named"].subject == "n1"
    assert kinds["selector"].subject == "zone=x"
    assert kinds["cpu"] == Cause("cpu", "", 3000, 2000)
    assert kinds["memory"] == Cause("memory", "", 8, 4)
    assert kinds["devices"].free == 0


def test_nothing_starts_on_a_node_without_a_kubelet() -> None:
    answer = fitting(ledger(), Wanted({VGPU: 1}), {}, {}, no_kubelet={"n2"})
    assert [(one.node, one.fits) for one in answer.sites] == [("n1", True), ("n2", False)]
    assert answer.sites[1].causes == (Cause("kubelet"),)


def test_without_devices_every_node_is_a_place() -> None:
    assert set(rows(ledger(), Wanted({}))) == {"n1", "n2"}


def test_of_many_nodes_those_are_shown_where_it_fits() -> None:
    devices = tuple(DeviceFact(f"n{n}", VGPU, f"n{n}-{m}") for n in range(9) for m in range(n // 4))
    answer = fitting(build(Facts(devices)), Wanted({VGPU: 2}), {}, {}, most=2)
    assert ([one.node for one in answer.sites], answer.nodes, answer.fits) == (["n8", "n4"], 5, 1)
