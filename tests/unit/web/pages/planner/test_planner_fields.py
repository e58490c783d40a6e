"""What the form of the planner says."""

from __future__ import annotations

from laneway.core.fleet.changes import AddGpus, AddNodes, AddVms, LeaveNode, SetMode
from laneway.web.pages.planner.fields import MOST_ROWS, Read, read, rows
from laneway.web.place import parse
from laneway.web.rendering import Texts

TEXTS = Texts()


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
