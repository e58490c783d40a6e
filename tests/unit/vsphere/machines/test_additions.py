"""Specifications of devices to attach."""

from __future__ import annotations

import pytest

from laneway.core.vsphere.inventory.hosts import DeviceGroup, GroupPart
from laneway.core.vsphere.inventory.vms import Attached, DynamicBacking, VgpuBacking
from laneway.core.vsphere.spec.requests import GroupRequest, PassthroughRequest, PciIds, VgpuRequest
from laneway.vsphere.machines.additions import additions
from laneway.vsphere.port import FaultError

T4, NIC = PciIds(0x10DE, 0x1EB8), PciIds(0x15B3, 0x101B)
PAIR = DeviceGroup(
    "pair", parts=(GroupPart("pciPassthru", "T4", T4), GroupPart("sriovNic", "NIC", NIC, "", "x"))
)


def test_keys_are_negative_and_differ() -> None:
    requested_item = (
        VgpuRequest("grid_t4-8q"),
        PassthroughRequest((T4,), "blue"),
        GroupRequest("pair"),
    )
    found = additions(requested_item, {"pair": PAIR}, ())
    keys = [one.key for one in found]
    assert keys == [-200, -201, -202, -203]
    assert found[0].backing == VgpuBacking("grid_t4-8q")
    assert found[1].backing == DynamicBacking((T4,), "blue")


def test_devices_of_a_group_carry_it_and_their_place() -> None:
    there = (Attached(13000, DynamicBacking((T4,)), group=3),)
    found = additions((GroupRequest("pair"), GroupRequest("pair")), {"pair": PAIR}, there)
    assert [(one.group, one.group_key, one.sequence) for one in found] == [
        ("pair", 4, 0),
        ("pair", 4, 1),
        ("pair", 5, 0),
        ("pair", 5, 1),
    ]


def test_a_group_that_is_not_there_or_has_other_parts_is_refused() -> None:
    odd = DeviceGroup("odd", parts=(GroupPart("dvx", "something"),))
    for name, fault in (("gone", "DeviceGroupMissing"), ("odd", "DeviceGroupUnsupported")):
        with pytest.raises(FaultError) as caught:
            additions((GroupRequest(name),), {"odd": odd}, ())
        assert caught.value.fault.type == fault


def test_only_the_label_that_is_requested_is_named() -> None:
    gold = PassthroughRequest((T4,), "gold")
    backings = [one.backing for one in additions((PassthroughRequest((T4,)), gold), {}, ())]
    assert backings == [DynamicBacking((T4,)), DynamicBacking((T4,), "gold")]
