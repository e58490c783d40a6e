"""What is asked on the command line, and how the answer reads."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Facts, Phase
from laneway.core.ledger.question import Answer, Request
from laneway.core.refusals import NodeNotFound
from laneway.views.capacity import report

KNOWN = [
    "nvidia.com/NVIDIA_A2-2Q",
    "nvidia.com/NVIDIA_A2-12Q",
    "nvidia.com/GRID_A100-2Q",
    "a.com/L4",
]


def test_counts_are_added_up() -> None:
    assert question.requested(["a.com/X=2", "a.com/Y", "a.com/X"]) == {
        "a.com/X": 3,
        "a.com/Y": 1,
    }


@pytest.mark.parametrize("text", ["", "x=", "x=0", "x=-1", "x=1.5", "=3", "x=9999999", "x=1=2"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        question.requested([text])


@given(st.lists(st.text()))
def test_any_text_is_a_desired_state_or_refused(texts: list[str]) -> None:
    try:
        found = question.requested(texts)
    except click.BadParameter:
        return
    assert sum(found.values()) >= len(texts)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("A2-2Q", "nvidia.com/NVIDIA_A2-2Q"),
        ("a2-2q", "nvidia.com/NVIDIA_A2-2Q"),
        ("NVIDIA A2-2Q", "nvidia.com/NVIDIA_A2-2Q"),
        ("L4", "a.com/L4"),
        ("other.com/L4", "other.com/L4"),
    ],
)
def test_a_profile_may_be_written_short(text: str, meant: str) -> None:
    assert question.in_full({text: 2}, KNOWN) == {meant: 2}


def test_a_short_name_that_means_nothing_is_answered_with_what_there_is() -> None:
    with pytest.raises(Failure, match=r"resource A2-9Q\. Did you mean A2-2Q"):
        question.in_full({"A2-9Q": 1}, KNOWN)
    # Of GPUs something is said where they were looked at.
    with pytest.raises(Failure, match=r"resource A2-9Q, and no GPU offers .* Did you mean A2-2Q"):
        question.in_full({"A2-9Q": 1}, KNOWN, KNOWN)


def test_what_is_configured_is_meant_before_what_could_be() -> None:
    offered = ["nvidia.com/GRID_A2-2Q", "nvidia.com/NVIDIA_A2-8Q"]
    assert question.in_full({"A2-2Q": 1, "a2-8q": 3}, KNOWN, offered) == {
        "nvidia.com/NVIDIA_A2-2Q": 1,
        "nvidia.com/NVIDIA_A2-8Q": 3,
    }


def test_a_short_name_that_means_several_is_asked_back() -> None:
    with pytest.raises(Failure, match=r"L4 could be each of a\.com/L4, b\.com/L4"):
        question.in_full({"L4": 1}, ["a.com/L4", "b.com/L4"])


LEDGER = build(
    Facts(
        (),
        tuple(
            Demand(Consumer(ConsumerKind.VM, "d", name), Phase.STOPPED, {}, labels={"pool": pool})
            for name, pool in (("a", "web"), ("b", "web"), ("c", "db"))
        ),
    )
)


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        (["d/a"], ["a"]),
        (["d/pool=web"], ["a", "b"]),
        (["d/b", "d/pool=web"], ["b", "a"]),
        ([], []),
    ],
)
def test_vms_are_named_or_found_by_label(values: list[str], meant: list[str]) -> None:
    assert [consumer.name for consumer in question.vms(LEDGER, values)] == meant


@pytest.mark.parametrize("text", ["a", "d/", "/a", "d/nope", "d/pool=nope", "other/a", ""])
def test_a_machine_that_there_is_not_is_reported(text: str) -> None:
    with pytest.raises(Failure):
        question.vms(LEDGER, [text])


def read(answer: Answer) -> list[str]:
    return report(Request(resources={"a.com/L4": 2}), answer)


def test_yes_and_no_come_first() -> None:
    yes = Answer(vms=1, kept=0, started=1, room=(("n1", 2),))
    assert read(yes) == [
        "Yes: there is room for 1 VM with 2 x a.com/L4.",
        "  room on n1 for 2",
    ]
    refusal = NodeNotFound("n9", ())
    no: dict[str, Any] = {"kept": 1, "refusals": (refusal,), "change": (("a.com/L4", -1),)}
    assert read(Answer(vms=3, started=1, **no)) == [
        "No: of 3 VMs each with 2 x a.com/L4 there is room for 2.",
        f"  NodeNotFound: {refusal.words}",
        "  1 of 3 stays as it is",
        "  requests 1 x a.com/L4 less than now",
    ]


def test_many_nodes_are_counted() -> None:
    room = tuple((f"n{number}", 1) for number in range(40))
    assert read(Answer(vms=1, kept=0, started=1, room=room))[1].endswith("on 28 more nodes")
