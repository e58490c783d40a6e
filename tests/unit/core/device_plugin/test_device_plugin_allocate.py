"""The answer for a container: the contract's words, nothing twice, and nothing by halves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.device_plugin.allocate import Answer, Denied, answer
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.pci import PciAddress
from support.devices import function_offer

VF = "nvidia.com/NVIDIA_A2-2Q"


def pci(one: str, group: int | None, **fields: Any) -> Offer:
    return function_offer(PciAddress.parse(one), resource=VF, group=group, **fields)


def by_id(*offers: Offer) -> dict[str, Offer]:
    return {offer.id: offer for offer in offers}


def only(result: tuple[Answer, ...] | Denied) -> Answer:
    assert not isinstance(result, Denied), result.why
    (reported,) = result
    return reported


def denied(result: tuple[Answer, ...] | Denied) -> Denied:
    assert isinstance(result, Denied)
    return result


def test_functions_are_reported_by_address_with_the_groups_they_are_in() -> None:
    offers = by_id(pci("0000:08:00.5", 41), pci("0000:08:00.4", 40), pci("0000:08:00.6", 42))
    assert only(answer(VF, offers, [["0000:08:00.5", "0000:08:00.4"]])) == Answer(
        {"PCI_RESOURCE_NVIDIA_COM_NVIDIA_A2-2Q": "0000:08:00.4,0000:08:00.5"},
        ("/dev/vfio/40", "/dev/vfio/41", "/dev/vfio/vfio"),
    )


def test_mediated_devices_are_reported_by_uuid_with_the_whole_folder() -> None:
    uuid = "5a5bb4f8-3e5c-4c1a-8f2e-4d6a3f1d7c11"
    offer = Offer(resource=VF, id=uuid, form=Form.MDEV, kind="VGPUDevice", name="v", group=7)
    assert only(answer(VF, by_id(offer), [[uuid]])) == Answer(
        {"MDEV_PCI_RESOURCE_NVIDIA_COM_NVIDIA_A2-2Q": uuid}, ("/dev/vfio/",)
    )


def test_usb_devices_are_reported_by_bus_and_number() -> None:
    name = "node7-046d-c52b-003011"
    resource = f"kubevirt.io/{name}"
    offer = Offer(
        resource=resource, id=name, form=Form.USB, kind="USBDevice", name=name, usb=(3, 11)
    )
    assert only(answer(resource, by_id(offer), [[name]])) == Answer(
        {"USB_RESOURCE_KUBEVIRT_IO_NODE7-046D-C52B-003011": "3:11"}, ("/dev/bus/usb/003/011",)
    )


def test_members_of_the_group_come_with_a_function() -> None:
    offers = by_id(pci("0000:08:00.1", 40), pci("0000:08:00.0", 40), pci("0000:09:00.0", 41))
    reported = only(answer(VF, offers, [["0000:08:00.1"]]))
    assert [*reported.environment.values()] == ["0000:08:00.0,0000:08:00.1"]
    assert reported.nodes == ("/dev/vfio/40", "/dev/vfio/vfio")


def test_each_container_gets_only_its_own() -> None:
    offers = by_id(pci("0000:08:00.4", 40), pci("0000:08:00.5", 41))
    first, second = answer(VF, offers, [["0000:08:00.4"], ["0000:08:00.5"]])  # type: ignore[misc]
    assert [*first.environment.values()] == ["0000:08:00.4"]
    assert [*second.environment.values()] == ["0000:08:00.5"]
    assert "/dev/vfio/40" not in second.nodes


@pytest.mark.parametrize(
    ("requests", "why", "senseless"),
    [
        ([["0000:99:00.0"]], "'0000:99:00.0' is not a device of nvidia.com/NVIDIA_A2-2Q", True),
        ([["0000:08:00.4", "0000:99:00.0"]], "'0000:99:00.0' is not a device", True),
        ([[""]], "'' is not a device", True),
        ([["x" * 10_000]], "x' is not a device", True),
        ([["0000:08:00.4", "0000:08:00.4"]], "requested twice", True),
        ([["0000:08:00.4"], ["0000:08:00.4"]], "requested twice", True),
        ([["0000:0a:00.0"]], "Xid 79", False),
        ([["0000:08:00.4"], ["0000:08:00.5"]], "another container of the pod gets", False),
        ([["0000:0b:00.0"]], "no IOMMU group", False),
        ([["0000:0c:00.0"]], "0000:0c:00.1 of the same IOMMU group 43 cannot be", False),
    ],
)
def test_what_cannot_be_given_whole_is_refused(
    requests: list[list[str]], why: str, senseless: bool
) -> None:
    offers = by_id(
        pci("0000:08:00.4", 40),
        pci("0000:08:00.5", 40),
        pci("0000:0a:00.0", 42, unhealthy="the GPU fell off the bus (Xid 79)"),
        pci("0000:0b:00.0", None),
        pci("0000:0c:00.0", 43),
        pci("0000:0c:00.1", 43, unhealthy="it is not on vfio-pci"),
    )
    refused = denied(answer(VF, offers, requests))
    assert why in refused.why
    assert refused.senseless is senseless
    assert len(refused.why) < 300


def test_the_text_follows_the_form_whatever_else_is_known() -> None:
    odd = pci("0000:08:00.4", 40, usb=(3, 11))
    assert only(answer(VF, by_id(odd), [["0000:08:00.4"]])) == Answer(
        {"PCI_RESOURCE_NVIDIA_COM_NVIDIA_A2-2Q": "0000:08:00.4"}, ("/dev/vfio/40", "/dev/vfio/vfio")
    )


def test_a_usb_device_without_place_is_refused() -> None:
    offer = Offer(resource="kubevirt.io/u", id="u", form=Form.USB, kind="USBDevice", name="u")
    assert "unknown" in denied(answer("kubevirt.io/u", by_id(offer), [["u"]])).why


def test_a_group_member_of_what_was_just_allocated_is_refused_but_not_the_device_itself() -> None:
    offers = by_id(pci("0000:08:00.0", 40), pci("0000:08:00.1", 40), pci("0000:09:00.0", 41))
    just = {"0000:08:00.0"}
    assert "a moment ago" in denied(answer(VF, offers, [["0000:08:00.1"]], just)).why
    assert only(answer(VF, offers, [["0000:08:00.0"]], just))
    assert only(answer(VF, offers, [["0000:09:00.0"]], just))
    # A pod that is just getting the one keeps the other from all others.
    offers |= by_id(pci("0000:08:00.1", 40, unhealthy="its mate 0000:08:00.0 is with a pod"))
    assert only(answer(VF, offers, [["0000:08:00.0"]], just))
    offers |= by_id(pci("0000:08:00.1", 40))
    both = {"0000:08:00.0", "0000:08:00.1"}
    assert only(answer(VF, offers, [["0000:08:00.1"]], both)), "its pod was not admitted"


IDS = [f"0000:{bus:02x}:00.{function}" for bus in (8, 9) for function in range(4)]
OFFER = st.builds(
    Offer,
    resource=st.just(VF),
    id=st.sampled_from([*IDS, "a-uuid", "b-uuid"]),
    form=st.sampled_from(Form),
    kind=st.just("PCIDevice"),
    name=st.just("n"),
    group=st.none() | st.integers(0, 3),
    usb=st.none() | st.tuples(st.integers(0, 999), st.integers(0, 999)),
    unhealthy=st.sampled_from(["", "", "", "gone"]),
)
OFFERS = st.lists(OFFER, max_size=10, unique_by=lambda offer: offer.id)
REQUESTS = st.lists(st.lists(st.sampled_from([*IDS, "a-uuid", "", "?"]), max_size=4), max_size=3)


@given(OFFERS, REQUESTS, st.sets(st.sampled_from(IDS)), st.randoms())
def test_answers_are_unique_and_do_not_depend_on_any_order(
    offers: list[Offer], requests: list[list[str]], just: set[str], random: Any
) -> None:
    result = answer(VF, by_id(*offers), requests, just)
    mixed = random.sample(offers, len(offers))
    turned = [random.sample(request, len(request)) for request in requests]
    again = answer(VF, by_id(*mixed), turned, just)
    if isinstance(result, Denied):
        assert result.why
        assert isinstance(again, Denied)
        return
    assert result == again
    assert len(result) == len(requests)
    known = by_id(*offers)
    reported: list[str] = []
    for one, request in zip(result, requests, strict=True):
        values = [value for text in one.environment.values() for value in text.split(",")]
        for asked in request:
            assert known[asked].unhealthy == ""
            if known[asked].form is not Form.USB:
                assert asked in (value for value in values if value in known)
        functions = [
            value for name, text in one.environment.items() if name.startswith("PCI_")
            for value in text.split(",")
        ]  # fmt: skip
        assert functions == sorted(functions)
        reported += functions
        assert [*one.nodes] == sorted({*one.nodes})
        assert bool(one.nodes) == bool(request)
    assert len(reported) == len({*reported})


@given(st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3))
def test_garbage_is_answered_with_a_refusal(requests: list[list[str]]) -> None:
    result = answer(VF, by_id(pci("0000:08:00.4", 40)), requests)
    assert isinstance(result, Denied) == any(requests)
