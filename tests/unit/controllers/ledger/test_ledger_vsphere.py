"""Hosts and reservations as objects: what is written is read back, whatever is in it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.api import ObjectMeta, decode
from laneway.api.vsphere import (
    AllocatedItem,
    VCenter,
    VCenterSpec,
    VSphereHost,
    VSphereReservation,
)
from laneway.controllers.ledger.vsphere import (
    allocated_item,
    host_object,
    host_of,
    request_of,
    reservation_of,
    server_of,
    spec_of,
    vcenter_of,
)
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.spec.requests import GroupRequest, PassthroughRequest, PciIds, VgpuRequest

PATTERNS = st.builds(
    PciIds,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
    *[st.none() | st.integers(0, 0xFFFF)] * 2,
    st.none() | st.integers(0, 0xFF),
)
ASKED = st.one_of(
    st.builds(VgpuRequest, st.text()),
    st.builds(GroupRequest, st.text()),
    st.builds(PassthroughRequest, st.lists(PATTERNS, min_size=1, max_size=4).map(tuple), st.text()),
)
TEXT = st.text(max_size=8)


def as_told(host: Host) -> Host:
    """A host with nothing that vCenter does not tell: numbers of 0, revisions."""
    groups = [
        replace(
            group,
            parts=tuple(
                replace(part, ids=PciIds(*part.ids[:2]) if part.ids and any(part.ids[:2]) else None)
                for part in group.parts
            ),
        )
        for group in host.device_groups
    ]
    devices = [
        replace(one, ids=PciIds(*one.ids[:2], *(number or None for number in one.ids[2:4])))
        for one in host.devices
    ]
    return replace(host, device_groups=tuple(groups), devices=tuple(devices))


@given(st.from_type(Host).map(as_told))
def test_a_host_is_read_back_as_it_was(host: Host) -> None:
    stored = msgspec.json.encode(host_object("main", host))
    assert host_of(decode(VSphereHost, stored)) == host


@given(st.lists(st.tuples(ASKED, st.lists(TEXT, max_size=3)), max_size=5), TEXT)
def test_a_reservation_is_read_back_as_it_was(
    seats: list[tuple[object, list[str]]], host: str
) -> None:
    reservation = Reservation(
        "default/one",
        host,
        tuple(
            DeviceAllocation(requested_item, tuple(devices)) for requested_item, devices in seats
        ),  # type: ignore[arg-type]
    )
    stored = VSphereReservation(
        metadata=ObjectMeta(name="one", namespace="default"),
        spec=spec_of("main", "vc.example.com", reservation, {host: "esx"}),
    )
    assert reservation_of(decode(VSphereReservation, msgspec.json.encode(stored))) == reservation


@given(TEXT, st.text(), TEXT)
def test_an_odd_seat_is_something_that_nothing_fits(kind: str, asked: str, label: str) -> None:
    request_of(AllocatedItem(type=kind, asked=asked, label=label))


def test_ids_are_written_in_hex_with_stars_for_any() -> None:
    requested_item = PassthroughRequest(
        (PciIds(0x10DE, 0x1EB8), PciIds(0x10DE, 0x20F1, None, 1)), "gold"
    )
    seat = allocated_item(requested_item)
    assert (seat.type, seat.asked, seat.label) == (
        "Device",
        "10de:1eb8, 10de:20f1:*:0001",
        "gold",
    )


@pytest.mark.parametrize(
    "text",
    ["vc.example.com", "VC.Example.com", " vc.example.com:443", "https://vc.example.com/sdk"],
)
def test_a_server_has_one_spelling(text: str) -> None:
    assert server_of(text) == "vc.example.com"


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("10.0.0.1:8443", "10.0.0.1:8443"),
        ("https://[fd00::1]:8443/sdk", "[fd00::1]:8443"),
        ("a:b:c", "a:b:c"),
        ("[", "["),
        ("", ""),
    ],
)
def test_other_servers(text: str, server: str) -> None:
    assert server_of(text) == server


@given(st.text())
def test_any_server_tells_its_name(text: str) -> None:
    name = vcenter_of(text, [])
    assert name == vcenter_of(server_of(text), [])
    assert 0 < len(name) <= 253


def test_a_vcenter_is_called_as_its_object_is() -> None:
    objects = [
        VCenter(metadata=ObjectMeta(name=name), spec=VCenterSpec(server=server))
        for name, server in (("b", "vc.example.com:443"), ("a", "VC.example.com"), ("c", "x"))
    ]
    assert vcenter_of("https://vc.example.com/sdk", objects) == "a"
    assert vcenter_of("127.0.0.1:8989", objects).startswith("127-0-0-1-8989")
