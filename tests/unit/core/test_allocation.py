"""The record on a virtual machine: Harvester's form, and what is left of it as a reservation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.allocation import (
    Held,
    Part,
    Request,
    devices_of,
    on_node,
    still_requested,
    text_of,
)

VGPU = "nvidia.com/NVIDIA_A2-2Q"
NIC = "intel.com/X710"

_names = st.text("abc123-", min_size=1, max_size=6)
_held = st.builds(Held, st.sampled_from(Part), st.sampled_from([VGPU, NIC, "a/b"]), _names)


def _nics(*names: str) -> list[Held]:
    return [Held(Part.HOST_DEVICES, NIC, name) for name in names]


def test_the_form_is_harvesters() -> None:
    devices = [
        *_nics("node1-000009000", "node1-000008000"),
        Held(Part.GPUS, VGPU, "node1-000041004"),
        *_nics("node1-000008000"),
    ]
    assert text_of(devices) == (
        '{"gpus":{"nvidia.com/NVIDIA_A2-2Q":["node1-000041004"]},'
        '"hostdevices":{"intel.com/X710":["node1-000008000","node1-000009000"]}}'
    )


def test_empty_parts_are_left_out() -> None:
    assert text_of([]) == ""
    assert text_of(_nics("a")) == '{"hostdevices":{"intel.com/X710":["a"]}}'


@given(st.lists(_held, max_size=8))
def test_a_record_reads_back(devices: list[Held]) -> None:
    assert devices_of(text_of(devices)) == sorted(set(devices))


def test_what_other_versions_add_is_passed_over() -> None:
    assert devices_of('{"hostdevices":{"a/b":["x"]},"future":1}') == [
        Held(Part.HOST_DEVICES, "a/b", "x")
    ]


@given(st.text(max_size=40))
def test_any_text_is_a_record_or_a_value_error(text: str) -> None:
    try:
        devices_of(text)
    except ValueError:
        return


def test_a_machine_that_requests_less_reserves_less() -> None:
    devices = _nics("a", "b", "c")
    asked = [Request("x", NIC), Request("y", NIC)]
    assert still_requested(devices, asked) == _nics("a", "b")
    assert still_requested(devices, [Request("x", VGPU)]) == []
    assert still_requested(devices, []) == []


def test_devices_that_the_machine_calls_by_name_stay_first() -> None:
    asked = [Request("c", NIC), Request("x", NIC)]
    assert still_requested(_nics("a", "b", "c"), asked) == _nics("a", "c")


def test_a_machine_that_requests_more_reserves_what_it_had() -> None:
    asked = [Request(name, NIC) for name in "wxyz"]
    assert still_requested(_nics("a"), asked) == _nics("a")


def test_a_gpu_may_be_requested_as_a_host_device() -> None:
    devices = [Held(Part.GPUS, VGPU, "a"), Held(Part.HOST_DEVICES, VGPU, "b")]
    assert still_requested(devices, [Request("x", VGPU), Request("y", VGPU)]) == devices


@given(
    st.lists(_held, max_size=8), st.lists(st.builds(Request, _names, st.sampled_from([VGPU, NIC])))
)
def test_a_reservation_never_grows_and_never_exceeds_what_is_asked(
    devices: list[Held], asked: list[Request]
) -> None:
    kept = still_requested(devices, asked)
    assert set(kept) <= set(devices)
    for resource in (VGPU, NIC):
        count = sum(one.resource == resource for one in kept)
        assert count == min(
            sum(one.resource == resource for one in devices),
            sum(one.resource == resource for one in asked),
        )
    assert still_requested(kept, asked) == kept


@pytest.mark.parametrize(
    ("name", "node", "its"),
    [
        ("node1-000008000", "node1", True),
        ("node1-1000008000", "node1", True),
        ("node1-046d-c52b-003011", "node1", True),
        ("node1-a-000008000", "node1", False),
        ("node1-a-000008000", "node1-a", True),
        ("node11-000008000", "node1", False),
        ("000008000", "node1", False),
        ("node1-eno1", "node1", False),
        ("node1-", "node1", False),
    ],
)
def test_a_devices_name_tells_its_node(name: str, node: str, its: bool) -> None:
    assert on_node(Held(Part.HOST_DEVICES, NIC, name), node) is its
