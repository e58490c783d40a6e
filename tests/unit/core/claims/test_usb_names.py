"""Which USB device bears which name, whatever was plugged in where, and laws of that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core import names
from laneway.core.claims.usb import Remembered, named, remembered
from laneway.core.inventory import UsbDevice
from support.devices import stick

STICK = stick()
DONGLE = UsbDevice(port="1-5", vendor="096e", product="0006", bus=1, number=6, class_code="00")


def name(device: UsbDevice) -> str:
    return names.usb_object_name("node1", device.vendor, device.product, device.bus, device.number)


def claim(device: UsbDevice) -> dict[str, Remembered]:
    return {name(device): remembered(device)}


def test_without_claims_every_device_has_its_own_name() -> None:
    assert named((STICK, DONGLE), "node1", {}) == {name(STICK): STICK, name(DONGLE): DONGLE}


def test_a_serial_number_tells_a_device_at_any_port() -> None:
    moved = replace(STICK, port="2-1", bus=2, number=9)
    assert named((moved,), "node1", claim(STICK)) == {name(STICK): moved}


def test_a_port_tells_a_device_without_a_serial_number() -> None:
    again = replace(DONGLE, number=9)
    assert named((again,), "node1", claim(DONGLE)) == {name(DONGLE): again}


def test_at_another_port_a_device_without_a_serial_number_may_be_any() -> None:
    moved = replace(DONGLE, port="1-6", number=9)
    assert named((moved,), "node1", claim(DONGLE)) == {name(moved): moved}


def test_another_device_with_the_number_of_a_claimed_one_is_not_that() -> None:
    other = replace(STICK, serial="other")
    assert named((other,), "node1", claim(STICK)) == {}


def test_of_several_with_one_serial_number_the_one_in_place_is_meant() -> None:
    first, second = replace(STICK, port="1-1", number=8), replace(STICK, number=9)
    assert named((first, second), "node1", claim(STICK))[name(STICK)] == second
    elsewhere = replace(second, port="1-2")
    assert name(STICK) not in named((first, elsewhere), "node1", claim(STICK))


def test_a_claim_that_has_not_seen_its_device_means_the_one_of_its_name() -> None:
    assert named((STICK,), "node1", {name(STICK): Remembered()}) == {name(STICK): STICK}


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[UsbDevice], list[UsbDevice], set[int]]:
    """Devices that were plugged in, those that are now, and which of the first are claimed."""
    kinds = st.builds(
        UsbDevice,
        port=st.sampled_from(["1-1", "1-2", "1-3", "1-4"]),
        vendor=st.just("0781"),
        product=st.sampled_from(["5583", "5584"]),
        bus=st.just(1),
        number=st.integers(2, 6),
        class_code=st.just("08"),
        serial=st.sampled_from(["", "a", "b"]),
    )
    several = st.lists(kinds, max_size=4, unique_by=(lambda one: one.port, lambda one: one.number))
    before, now = draw(several), draw(several)
    return before, now, draw(st.sets(st.integers(0, 3)))


@given(stories())
def test_no_device_has_two_names_and_no_name_means_another_kind(
    story: tuple[list[UsbDevice], list[UsbDevice], set[int]],
) -> None:
    before, now, chosen = story
    claims = {name(one): remembered(one) for index, one in enumerate(before) if index in chosen}
    found = named(now, "node1", claims)
    assert len({one.port for one in found.values()}) == len(found)
    for claimed, memory in claims.items():
        if device := found.get(claimed):
            assert (device.vendor, device.product) == (memory.vendor, memory.product)
            assert device.serial == memory.serial
            assert memory.serial or device.port == memory.port
    # A device that is not claimed has its own name, or none while that is claimed.
    for claimed, device in found.items():
        assert claimed in claims or claimed == name(device)
    nameless = [one for one in now if one not in found.values()]
    assert all(name(one) in claims for one in nameless)


@given(stories())
def test_names_stay_while_nothing_is_plugged_in_again(
    story: tuple[list[UsbDevice], list[UsbDevice], set[int]],
) -> None:
    before, _, chosen = story
    claims = {name(one): remembered(one) for index, one in enumerate(before) if index in chosen}
    assert named(before, "node1", claims) == named(before, "node1", {})
