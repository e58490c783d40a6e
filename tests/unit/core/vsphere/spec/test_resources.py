"""How much of a host a machine is kept, may take, and is preferred for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vsphere.spec.resources import ResourceAllocation, resource_allocations


def test_hertz_and_bytes_become_what_vcenter_counts_in() -> None:
    reported = {
        "requests": {"cpu": "2G", "memory": "4Gi"},
        "limits": {"cpu": "3000000001", "memory": "5G"},
        "shares": {"cpu": 2000, "memory": 10},
    }
    assert resource_allocations(reported) == (
        ResourceAllocation(2000, 3001, 2000),
        ResourceAllocation(4096, 4769, 10),
    )


@pytest.mark.parametrize("nothing", [None, {}, {"limits": None}, {"requests": {"cpu": "0"}}])
def test_what_is_not_said_is_left_to_the_template(nothing: Any) -> None:
    assert resource_allocations(nothing) == (ResourceAllocation(), ResourceAllocation())


@pytest.mark.parametrize("value", ["much", "-1", -1, [], True])
def test_what_is_no_quantity_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"resources\.limits\.memory"):
        resource_allocations({"limits": {"memory": value}})


@given(st.integers(1, 2**60))
def test_no_machine_is_kept_less_than_it_requests(count: int) -> None:
    cpu, memory = resource_allocations({"requests": {"cpu": count, "memory": str(count)}})
    assert cpu.reservation is not None
    assert memory.reservation is not None
    assert 0 <= cpu.reservation * 10**6 - count < 10**6
    assert 0 <= memory.reservation * 2**20 - count < 2**20
