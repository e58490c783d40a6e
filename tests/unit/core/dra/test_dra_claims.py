"""What claims have is not allocated to others, whatever their statuses hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.device_plugin.offer import Offer
from laneway.core.dra.claims import allocated, without_claimed
from laneway.core.dra.device import DRIVER
from laneway.core.pci import PciAddress
from support.devices import function_offer


def status(**more: Any) -> dict[str, Any]:
    result = {"request": "a", "driver": DRIVER, "pool": "node1", "device": "pci-0000-08-00-0"}
    return {"allocation": {"devices": {"results": [{**result, **more}]}}}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ({}, ()),
        (status(), ("pci-0000-08-00-0",)),
        (status(pool="node2"), ()),
        (status(driver="gpu.example.com"), ()),
        (status(adminAccess=True), ()),
    ],
)
def test_devices_of_this_node_and_driver_are_counted(
    found: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert allocated(found, "node1") == names


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["allocation", "devices", "results", "driver", "pool", "device"]), inner
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["allocation", "devices"]), JSON))
def test_no_status_is_too_odd(found: dict[str, Any]) -> None:
    assert allocated(found, "node1") == ()


def offer(slot: int, group: int, unhealthy: str = "") -> Offer:
    return function_offer(PciAddress(0, 8, slot, 0), group=group, unhealthy=unhealthy)


def test_a_claimed_device_and_its_group_are_for_no_pod() -> None:
    offers = [offer(0, 7), offer(1, 7), offer(2, 8), offer(3, 7, "it is gone")]
    found = without_claimed(offers, {"pci-0000-08-00-0": "default/gpu"})
    assert [bool(one.unhealthy) for one in found] == [True, True, False, True]
    assert "default/gpu" in found[0].unhealthy
    assert found[3].unhealthy == "it is gone"
    assert without_claimed(offers, {}) == tuple(offers)
