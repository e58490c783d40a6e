"""Who cannot get a device now, and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.device_plugin.device_list import offers
from laneway.core.device_plugin.health import Facts, device_of, judged, with_group_members
from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.inventory import DeviceError, Inventory
from laneway.core.pci import PciAddress, PciFunction
from support import devices
from support.devices import function_offer

GPU, AUDIO = PciAddress(0, 8, 0, 0), PciAddress(0, 8, 0, 1)
POD = Owner(namespace="default", pod="launcher", container="compute")


def function(address: PciAddress, driver: str = "vfio-pci", code: str = "030200") -> PciFunction:
    return devices.function(address, class_code=code, driver=driver, iommu_group=7)


def offer(address: PciAddress, resource: str) -> Offer:
    return function_offer(address, resource=resource, group=7)


THERE = Inventory(functions=(function(GPU), function(AUDIO, code="040300")))
FREE = Facts(owners={})
CARD, SOUND = offer(GPU, "acme.com/gpu"), offer(AUDIO, "acme.com/audio")
TWIN = offer(AUDIO, "acme.com/gpu")


def why(facts: Facts, *offered: Offer, inventory: Inventory = THERE) -> list[str]:
    return [one.unhealthy for one in judged(offered or (CARD, SOUND), inventory, facts)]


def test_what_is_free_is_healthy() -> None:
    assert why(FREE) == ["", ""]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(owners={}, quarantined={GPU: "EIO"}), "could not be reset after its last user: EIO"),
        (Facts(owners={}, faults={GPU: "it reported Xid 79"}), "it reported Xid 79"),
    ],
)
def test_a_broken_device_is_not_allocated(facts: Facts, words: str) -> None:
    assert words in why(facts, CARD)[0]


def test_a_fault_of_a_card_is_one_of_its_vgpus() -> None:
    on_it = replace(offer(PciAddress(0, 8, 1, 4), "acme.com/vgpu"), card=GPU)
    assert why(Facts(owners={}, faults={GPU: "it reported Xid 79"}), on_it) == [
        "it reported Xid 79"
    ]


def test_a_device_that_cannot_be_read_is_not_allocated() -> None:
    unread = replace(THERE, errors=(DeviceError(str(GPU), "EIO"),))
    assert why(FREE, inventory=unread) == ["EIO", ""]


def test_a_group_member_on_another_driver_keeps_the_group_from_everybody() -> None:
    there = Inventory(functions=(function(GPU), function(AUDIO, "snd_hda_intel", "040300")))
    assert (
        "0000:08:00.1 of its IOMMU group 7 is on driver snd_hda_intel"
        in why(FREE, CARD, inventory=there)[0]
    )
    bridge = Inventory(functions=(function(GPU), function(AUDIO, "pcieport", "060400")))
    assert why(FREE, CARD, inventory=bridge) == [""]


def test_the_group_members_of_what_a_pod_has_are_not_for_others() -> None:
    facts = Facts(owners={device_of(CARD): POD})
    has, member = why(facts)
    assert has == ""
    assert "0000:08:00.0 of its IOMMU group 7 is with pod default/launcher" in member


def test_a_pod_that_is_still_to_get_the_group_member_gets_it() -> None:
    facts = Facts(
        owners={device_of(CARD): POD}, wanting={("default", "launcher", "acme.com/audio")}
    )
    assert why(facts) == ["", ""]


def test_what_was_just_allocated_keeps_its_like_from_others() -> None:
    facts = Facts(owners={}, fresh={device_of(CARD)})
    assert "is starting" in why(facts, CARD, TWIN)[1]
    assert why(facts, CARD, SOUND) == ["", ""]


def test_what_a_pod_has_by_another_name_is_not_offered_by_this() -> None:
    facts = Facts(owners={("acme.com/old", str(GPU)): POD})
    assert why(facts, CARD) == ["it is allocated to pod default/launcher as acme.com/old"]


def test_a_process_of_no_pod_is_named_once_the_holders_are_known() -> None:
    opened = {"/dev/vfio/7": ("process 4711 (vfio-test)",)}
    assert why(Facts(opened=opened), CARD) == [""]
    assert why(Facts(owners={}, opened=opened), CARD) == [
        "process 4711 (vfio-test) has /dev/vfio/7 open and is no pod's"
    ]
    assert why(Facts(owners={device_of(CARD): POD}, opened=opened), CARD) == [""]


def test_a_group_member_of_the_same_name_has_the_devices_holder() -> None:
    owners = {device_of(CARD): POD}
    assert with_group_members((CARD, TWIN, SOUND), owners) == {
        device_of(CARD): POD,
        device_of(TWIN): POD,
    }


@given(st.data())
def test_a_group_is_with_one_pod_and_a_device_in_use_with_its_own(
    worlds: Any, data: st.DataObject
) -> None:
    inventory, desired_states = data.draw(worlds)
    found = offers(inventory, "node1", desired_states).offered
    owners: dict[tuple[str, str], Owner] = {}
    # Pods come one after the other, and each gets something that is healthy.
    for number in range(data.draw(st.integers(0, 4))):
        facts = Facts(owners=owners)
        healthy = [
            one
            for one in judged(found, inventory, facts)
            if not one.unhealthy and device_of(one) not in owners
        ]
        if not healthy:
            break
        owners[device_of(data.draw(st.sampled_from(healthy)))] = Owner(
            namespace="default", pod=f"pod-{number}"
        )
    pods: dict[int, set[str]] = {}
    for one in found:
        if one.group is not None and (owner := owners.get(device_of(one))):
            pods.setdefault(one.group, set()).add(owner.pod)
    assert all(len(there) == 1 for there in pods.values())
    # By whatever name it is offered next, it is not offered to another.
    renamed = [replace(one, resource="acme.com/renamed") for one in found]
    for one in judged(renamed, inventory, Facts(owners=owners)):
        assert one.unhealthy or one.id not in {held for _, held in owners}


@given(st.data())
def test_health_changes_nothing_else(worlds: Any, data: st.DataObject) -> None:
    inventory, desired_states = data.draw(worlds)
    found = offers(inventory, "node1", desired_states).offered
    after = judged(found, inventory, Facts(owners={}))
    assert tuple(replace(one, unhealthy="") for one in after) == found
    assert after == judged(found, inventory, Facts(owners={}))
