"""The IOMMU groups of a node as a map."""

from __future__ import annotations

from typing import Any

from laneway.api import (
    Allocation,
    Condition,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceClaimStatus,
    PCIDeviceStatus,
)
from laneway.web.pictures.iommu import Use, groups_of, iommu_map
from support.drawn import EVIL, SAY, check_harmless, of_class, read, words


def device(address: str, group: str, **status: Any) -> PCIDevice:
    return PCIDevice(status=PCIDeviceStatus(address=address, iommu_group=group, **status))


def claim(address: str, allocation: Allocation | None = None) -> PCIDeviceClaim:
    return PCIDeviceClaim(
        spec=PCIDeviceClaimSpec(address=address, user_name="anna"),
        status=PCIDeviceClaimStatus(allocation=allocation),
    )


def href(device: PCIDevice) -> str:
    return f"/pci/{device.status.address}"


VF = Condition(type="Claimable", status="False", message="a vGPU is configured on it")
HAS = Allocation(namespace="default", virtual_machine="web")
DEVICES = [
    device("05:00.1", "10", claimable=True),
    device("05:00.0", "10", claimable=False, critical=["holds swap space"]),
    device("01:00.0", "2", claimable=True, kernel_driver_in_use="nvme", description="An SSD"),
    device("02:00.0", "3", claimable=False, conditions=[VF]),
    device("03:00.0", "4"),
    device("04:00.0", "5", claimable=True),
    device("06:00.0", "6", claimable=True),
    device("07:00.0", "", claimable=False),
]
GROUPS = groups_of(DEVICES, [claim("04:00.0", HAS), claim("06:00.0")], href=href)


def test_groups_are_in_the_order_of_their_numbers_with_what_is_with_the_worst_device() -> None:
    assert [(one.number, one.use) for one in GROUPS] == [
        ("2", Use.CLAIMABLE),
        ("3", Use.BLOCKED),
        ("4", Use.UNKNOWN),
        ("5", Use.HELD),
        ("6", Use.CLAIMED),
        ("10", Use.CRITICAL),
        ("", Use.BLOCKED),
    ]


def test_each_group_is_a_box_that_leads_to_its_devices() -> None:
    root = read(iommu_map(GROUPS, ids="m", say=SAY))
    check_harmless(root, "m")
    links = [one for one in of_class(root, "map-box") if one.tag == "a"]
    assert [(one.get("aria-label"), one.get("href")) for one in links[-2:]] == [
        ("Group 10, critical to the node", "#m-10"),
        ("No IOMMU group, not claimable", "#m-none"),
    ]
    ids = {one.get("id") for one in of_class(root, "map-card")}
    assert {one.get("href", "")[1:] for one in links} == ids


def test_a_card_says_what_each_device_is_and_why_it_cannot_be_claimed() -> None:
    cards = [words(one) for one in of_class(read(iommu_map(GROUPS, ids="m", say=SAY)), "map-card")]
    assert cards[0] == "Group 2 claimable 01:00.0 nvme claimable An SSD"
    assert "not claimable: a vGPU is configured on it" in cards[1]
    assert "in use: VM default/web" in cards[3]
    assert "claimed: anna" in cards[4]
    assert "05:00.0 critical to the node: holds swap space 05:00.1 claimable" in cards[5]


def test_any_words_of_devices_are_only_words() -> None:
    evil = device(
        EVIL, EVIL, claimable=False, critical=[EVIL], description=EVIL, kernel_driver_in_use=EVIL
    )
    check_harmless(read(iommu_map(groups_of([evil], href=lambda _: EVIL), ids="m", say=SAY)), "m")
