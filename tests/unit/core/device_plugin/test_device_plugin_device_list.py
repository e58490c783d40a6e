"""What is offered of a node follows from what is there and is requested, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.device_plugin.device_list import (
    ClaimedFunction,
    ClaimedUsb,
    DesiredDevices,
    offers,
)
from laneway.core.device_plugin.offer import Form, Offer, Seat
from laneway.core.device_plugin.resources import is_extended
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from support.devices import function, stick

GPU, VF = PciAddress(0, 8, 0, 0), PciAddress(0, 8, 0, 4)
CARD = function(GPU, driver="vfio-pci", iommu_group=7, numa_node=1)
FUNCTION = function(VF, driver="nvidia", iommu_group=9, physfn=GPU)
Q4 = "NVIDIA A2-4Q"


def vgpu(framework: Any, profile: str = Q4) -> VgpuFunction:
    current = ConfiguredVgpu(
        "7", profile, uuid="u-1" if framework == "mdev" else "", iommu_group=30
    )
    return VgpuFunction(
        address=VF,
        parent=GPU,
        framework=framework,
        supported=(),
        creatable=(),
        configured=current,
    )


def shown(inventory: Inventory, desired_states: DesiredDevices) -> list[tuple[str, str]]:
    return [(one.resource, one.id) for one in offers(inventory, "node1", desired_states).offered]


def test_a_claimed_function_on_vfio_pci_is_offered_with_where_it_is() -> None:
    found = offers(
        Inventory(functions=(CARD,)),
        "node1",
        DesiredDevices(functions=(ClaimedFunction(address=GPU),)),
    )
    assert found.offered == (
        Offer(
            resource="nvidia.com/GA107GL_A2___A16",
            id="0000:08:00.0",
            form=Form.PCI,
            kind="PCIDevice",
            name="node1-000008000",
            address=GPU,
            card=GPU,
            group=7,
            numa_node=1,
        ),
    )


@pytest.mark.parametrize(
    ("shown_as", "desired_states"),
    [
        (CARD, DesiredDevices()),
        (replace(CARD, driver="nvidia"), DesiredDevices(functions=(ClaimedFunction(address=GPU),))),
        (
            replace(CARD, iommu_group=None),
            DesiredDevices(functions=(ClaimedFunction(address=GPU),)),
        ),
        (CARD, DesiredDevices(functions=(ClaimedFunction(address=VF),))),
        (
            CARD,
            DesiredDevices(functions=(ClaimedFunction(address=GPU, vendor="10de", device="26b9"),)),
        ),
    ],
    ids=["not claimed", "on another driver", "in no group", "not there", "another card"],
)
def test_what_is_not_ready_is_not_offered(
    shown_as: PciFunction, desired_states: DesiredDevices
) -> None:
    found = offers(Inventory(functions=(shown_as,)), "node1", desired_states)
    assert not found.offered
    assert not found.leaving


def test_a_mediated_device_is_offered_as_it_is_desired() -> None:
    there = Inventory(functions=(FUNCTION,), vgpus=(vgpu("mdev"),))
    desired = offers(there, "node1", DesiredDevices(profiles={VF: Q4}))
    assert [(one.resource, one.id, one.group) for one in desired.offered] == [
        ("nvidia.com/NVIDIA_A2-4Q", "u-1", 30)
    ]
    for profiles in ({}, {VF: "NVIDIA A2-8Q"}):
        other = offers(there, "node1", DesiredDevices(profiles=profiles))
        assert not other.offered
        assert [one.id for one in other.leaving] == ["u-1"]


@pytest.mark.parametrize(
    ("mixed", "beside", "seat"),
    [
        (True, 8, Seat("25b6", Q4, 4, (("NVIDIA A2-8Q", 8),))),
        (True, None, None),
        (False, 8, None),
        (None, 8, None),
    ],
    ids=["all known", "one place unknown", "same size", "mode unknown"],
)
def test_a_vgpu_says_its_place_where_sizes_may_differ_and_all_places_are_known(
    *, mixed: bool | None, beside: int | None, seat: Seat | None
) -> None:
    def at(one: VgpuFunction, **fields: Any) -> VgpuFunction:
        assert one.configured is not None
        return replace(one, configured=replace(one.configured, **fields))

    other = replace(vgpu("mdev", "NVIDIA A2-8Q"), address=PciAddress(0, 8, 0, 5))
    there = Inventory(
        functions=(CARD, FUNCTION),
        vgpus=(at(vgpu("mdev"), placement=4), at(other, placement=beside, uuid="u-2")),
        modes={GPU: GpuModes(mixed_size=mixed)},
    )
    found = offers(there, "node1", DesiredDevices(profiles={VF: Q4}))
    assert [(one.id, one.seat) for one in found.offered] == [("u-1", seat)]


def test_a_vgpu_that_is_a_function_needs_its_claim_as_well() -> None:
    there = Inventory(functions=(FUNCTION,), vgpus=(vgpu("vendor-vfio"),))
    claim = ClaimedFunction(address=VF, skip_binding=True)
    assert not offers(there, "node1", DesiredDevices(profiles={VF: Q4})).offered
    desired_states = DesiredDevices(functions=(claim,), profiles={VF: Q4})
    assert shown(there, desired_states) == [("nvidia.com/NVIDIA_A2-4Q", "0000:08:00.4")]
    for changed in (
        replace(desired_states, profiles={}),
        replace(desired_states, functions=(replace(claim, leaving=True),)),
    ):
        found = offers(there, "node1", changed)
        assert not found.offered
        assert [one.id for one in found.leaving] == ["0000:08:00.4"]


def test_a_usb_device_is_offered_only_where_it_was_given_to_qemu() -> None:
    device = stick("3-1", bus=3, number=11)
    claim = ClaimedUsb(name="node1-046d-c52b-003011", port="3-1", path="/dev/bus/usb/003/011")
    there = Inventory(usb=(device,))
    [offer] = offers(there, "node1", DesiredDevices(usb=(claim,))).offered
    assert (offer.resource, offer.usb) == ("kubevirt.io/node1-046d-c52b-003011", (3, 11))
    plugged_in_anew = replace(device, number=12, device_path="/dev/bus/usb/003/012")
    assert not offers(
        Inventory(usb=(plugged_in_anew,)), "node1", DesiredDevices(usb=(claim,))
    ).offered


def test_a_claim_with_an_impossible_name_is_reported_and_not_offered() -> None:
    claim = ClaimedFunction(address=GPU, override="no name")
    found = offers(Inventory(functions=(CARD,)), "node1", DesiredDevices(functions=(claim,)))
    assert not found.offered
    assert "no name" in found.refused["node1-000008000"].words


@given(st.data())
def test_offers_are_valid_sorted_and_each_device_one(worlds: Any, data: st.DataObject) -> None:
    inventory, desired_states = data.draw(worlds)
    found = offers(inventory, "node1", desired_states)
    every = (*found.offered, *found.leaving)
    assert all(is_extended(one.resource) for one in every)
    assert all("\n" not in one.id and one.id for one in every)
    assert len({(one.resource, one.id) for one in every}) == len(every)
    assert len({one.id for one in every}) == len(every)
    functions = [one.address for one in every if one.form is Form.PCI]
    assert len(set(functions)) == len(functions)
    assert list(found.offered) == sorted(
        found.offered, key=lambda one: (one.resource, one.address or (), one.id)
    )


@given(st.data())
def test_offers_do_not_depend_on_the_order_of_objects(worlds: Any, data: st.DataObject) -> None:
    inventory, desired_states = data.draw(worlds)
    claims = {claim.address: claim for claim in desired_states.functions}.values()
    usb = {claim.name: claim for claim in desired_states.usb}.values()
    one = replace(desired_states, functions=tuple(claims), usb=tuple(usb))
    other = replace(
        desired_states,
        functions=tuple(data.draw(st.permutations(one.functions))),
        usb=tuple(data.draw(st.permutations(one.usb))),
    )
    assert offers(inventory, "node1", other) == offers(inventory, "node1", one)


@given(st.data())
def test_nothing_is_offered_that_is_given_up(worlds: Any, data: st.DataObject) -> None:
    inventory, desired_states = data.draw(worlds)
    given_up = replace(
        desired_states,
        functions=tuple(replace(one, leaving=True) for one in desired_states.functions),
        usb=tuple(replace(one, leaving=True) for one in desired_states.usb),
        profiles={},
    )
    assert not offers(inventory, "node1", given_up).offered
