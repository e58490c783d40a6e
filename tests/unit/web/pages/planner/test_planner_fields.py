"""What the form of the planner says."""

from __future__ import annotations

import pytest

from laneway.core.fleet.changes import (
    AddGpus,
    AddNodes,
    AddVms,
    ChangeRequests,
    LeaveNode,
    SetInstances,
    SetMode,
)
from laneway.core.fleet.effort import TooLongError
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Node, Vm
from laneway.core.ledger.facts import Phase
from laneway.web.pages.planner.answer import Said, Wrong, answered
from laneway.web.pages.planner.fields import MOST_ROWS, Read, read, rows, shown_devices
from laneway.web.place import parse
from laneway.web.rendering import Texts

TEXTS = Texts()
_MORE = "type-0=nvidia.com/NVIDIA_L40S-24Q&vms-0=3"


def said(query: str) -> Read:
    return read(parse(f"/planner?{query}"), TEXTS)


def test_each_kind_of_row_is_a_change_and_the_fleet_grows_first() -> None:
    query = "type-0=r&vms-0=3&leave-0=n1&gpu-0=g&mode-0=MIG&node-0=n2&board-0=a2&server-0=l40s"
    assert said(f"{query}&nodes-0=2").changes == (
        AddNodes(nodes="2x l40s"),
        AddGpus(node="n2", board="a2"),
        SetMode(gpus=("g",), mode="MIG"),
        LeaveNode(node="n1"),
        AddVms(requests={"r": 1}, count=3),
    )


def test_a_row_keeps_its_place_and_an_empty_one_says_nothing() -> None:
    place = parse("/planner?type-2=r&vms-0=7")
    assert [row["type"] for row in rows(place, "vms")] == ["", "", "r", ""]
    assert read(place, TEXTS).changes == (AddVms(requests={"r": 1}),)
    assert len(rows(parse(f"/planner?leave-{MOST_ROWS - 1}=n"), "leave")) == MOST_ROWS


def test_what_is_wrong_is_told_at_its_field_and_nothing_is_planned() -> None:
    found = said("type-0=r&vms-0=-1&leave-0=n1&gpu-1=g")
    assert found.changes == ()
    assert found.wrong == {
        "vms-0": "Enter a number from 1 to 10,000.",
        "mode-1": "Choose a mode.",
    }
    for count in ("0", "10001", "1e3", "٣", "9" * 5000):
        assert "vms-0" in said(f"type-0=r&vms-0={count}").wrong


def test_a_vm_has_several_devices_and_labels_of_its_node() -> None:
    query = "type-0=a&each-0=2&type2-0=b&on-0=zone%3Da,+disk%3Dssd&vms-0=3"
    assert said(query).changes == (
        AddVms(requests={"a": 2, "b": 1}, count=3, selector={"zone": "a", "disk": "ssd"}),
    )
    [row, _] = rows(parse(f"/planner?{query}"), "vms")
    assert [what for what, _ in shown_devices("vms", row)] == ["type", "type2", "type3"]


def test_vms_by_name_or_by_label_request_other_devices() -> None:
    assert said("who-0=d/web&to-0=a&who-1=pool%3Dweb&to-1=b&per-1=2").changes == (
        ChangeRequests(vms=("d/web",), requests={"a": 1}),
        ChangeRequests(labels={"pool": "web"}, requests={"b": 2}),
    )


def test_gpu_instances_are_for_the_mode_mig() -> None:
    assert said("gpu-0=g&instances-0=3g.20gb,+1g.5gb%3D3&gpu-1=h&mode-1=MIGBacked").changes == (
        SetMode(gpus=("h",), mode="MIGBacked"),
        SetInstances(gpus=("g",), instances={"3g.20gb": 1, "1g.5gb": 3}),
    )


def test_each_field_tells_what_is_wrong_in_it() -> None:
    for query, field in {
        "on-0=zone%3Da": "type-0",
        "type-0=a&on-0=zone": "on-0",
        "type-0=a&each-0=65": "each-0",
        "to-0=a": "who-0",
        "who-0=d/web": "to-0",
        "who-0=a%3Db%3Dc&to-0=a": "who-0",
        "gpu-0=g&mode-0=SameSize&instances-0=1g.5gb": "instances-0",
        "gpu-0=g&instances-0=half": "instances-0",
    }.items():
        assert list(said(query).wrong) == [field], query


def test_what_the_fleet_lacks_is_told_at_the_field_that_names_it() -> None:
    fleet = made_up("2x l40s")
    for query, field in {
        "leave-0=l40s-1&leave-1=l40s-7": "leave-1",
        "gpu-0=x&mode-0=SameSize": "gpu-0",
        "node-0=l40s-9&board-0=l40s": "node-0",
        "who-0=d/none&to-0=r": "who-0",
    }.items():
        found = answered(fleet, said(query), "", restart=False)
        assert isinstance(found, Wrong)
        assert found.field == field, query


def test_an_address_may_have_a_profile_by_its_short_name() -> None:
    fleet = made_up("l40s*1")
    found = answered(fleet, said("type-0=L40S-24Q&vms-0=3"), "", restart=False)
    assert isinstance(found, Said)
    assert found.headline == "No: of 3 VMs there is room for 2."
    assert answered(fleet, said("type-0=L40S-24W"), "", restart=False) == Wrong(
        "vms-0", "no node has a resource L40S-24W. Did you mean L40S-24Q?"
    )


def test_an_answer_has_the_command_that_asks_the_same() -> None:
    asked = said(_MORE)
    found = answered(made_up("l40s*1"), asked, "my fleet", restart=True)
    assert isinstance(found, Said)
    assert found.command == (
        "laneway plan what-if --from 'my fleet' --vms '3x nvidia.com/NVIDIA_L40S-24Q=1'"
    )
    assert found.moves_command == "laneway plan moves --from 'my fleet' --restart L40S-24Q=3"
    grown = answered(made_up("l40s*1"), said(f"{_MORE}&leave-0=l40s-1"), "my fleet", restart=True)
    assert isinstance(grown, Said)
    assert (grown.command.count("--leave"), grown.moves_command) == (1, "")
    nothing = answered(made_up("l40s"), said(""), "", restart=False)
    assert isinstance(nothing, Said)
    assert nothing.command == "laneway plan what-if"


def test_a_file_that_would_keep_others_waiting_for_hours_gets_no_answer() -> None:
    fleet = Fleet(
        nodes=tuple(Node(name=f"n{n}") for n in range(1000)),
        vms=tuple(
            Vm(name=f"v{n}", phase=Phase.PENDING, requests={f"r{n}": 1}) for n in range(1000)
        ),
    )
    with pytest.raises(TooLongError):
        answered(fleet, said(""), "", restart=False)
