"""Which GPU a text means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.api import ObjectMeta, SRIOVGPUDevice, SRIOVGPUDeviceSpec
from laneway.cli.errors import Failure
from laneway.cli.target import pick


def gpu(node: str, address: str, name: str = "", **labels: str) -> SRIOVGPUDevice:
    return SRIOVGPUDevice(
        metadata=ObjectMeta(name=name or f"{node}-{address}", labels=labels),
        spec=SRIOVGPUDeviceSpec(node_name=node, address=address),
    )


FIRST = gpu("node1", "0000:08:00.0", "node1-000008000")
SECOND = gpu("node1", "0001:08:00.0", "node1-000108000")
THIRD = gpu("node2", "0000:08:00.0", "node2-000008000")
LABELLED = gpu("", "0000:09:00.0", "node3-000009000", nodename="node3")
ODD = gpu("node4", "nonsense", "odd")
ALL = [FIRST, SECOND, THIRD, LABELLED, ODD]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("node1/0000:08:00.0", FIRST),
        ("node1/08:00.0", FIRST),
        ("node1/0001:08:00.0", SECOND),
        ("node2/00000000:08:00.0", THIRD),
        ("node2-000008000", THIRD),
        ("node3/09:00.0", LABELLED),
        ("odd", ODD),
    ],
)
def test_a_gpu_is_named_by_its_place_or_by_its_object(text: str, meant: SRIOVGPUDevice) -> None:
    assert pick(ALL, text) is meant


@pytest.mark.parametrize(
    ("text", "listed", "hidden"),
    [
        ("node9/08:00.0", "Did you mean node", ""),
        ("node1/09:00.0", "node1/0001:08:00.0", "node2/"),
        ("08:00.0", "node1/0000:08:00.0", ""),
        ("node1/x", "node1/0000:08:00.0", ""),
        ("node5/nonsense", "Did you mean node4/nonsense", ""),
        ("/08:00.0", "node1/0000:08:00.0", ""),
        ("node2-000009000", "node2-000008000", ""),
    ],
)
def test_what_is_not_found_is_answered_with_what_there_is(
    text: str, listed: str, hidden: str
) -> None:
    with pytest.raises(Failure) as refused:
        pick(ALL, text)
    assert listed in refused.value.message
    assert not hidden or hidden not in refused.value.message


def test_of_many_gpus_some_are_listed() -> None:
    many = [gpu("n", f"0000:{bus:02x}:00.0") for bus in range(40)]
    with pytest.raises(Failure, match="and 24 more"):
        pick(many, "x")


@given(st.text(max_size=30))
def test_any_text_means_a_gpu_or_is_refused(text: str) -> None:
    try:
        assert pick(ALL, text) in ALL
    except Failure:
        assert text != "odd"
