"""The status of a machine's devices, from what is requested, reserved and attached."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.refusals.vsphere import NoRoom, Supply
from laneway.core.vsphere.inventory.vms import Attached, DynamicBacking, Fault, VgpuBacking, VmState
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.spec.requests import (
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)
from laneway.vsphere.fleet.device_status import DevicesStatus, devices_status

T4 = PciIds(0x10DE, 0x1EB8)
GOLD, PLAIN = PassthroughRequest((T4,), "gold"), PassthroughRequest((T4,))
WANTED = Requested((GOLD, PLAIN, VgpuRequest("grid_t4-8q")))
RESERVED = Reservation(
    "a/b", "host-1", tuple(DeviceAllocation(one, ("x",)) for one in WANTED.devices)
)
REFUSAL = NoRoom("this vCenter", (Supply("grid_t4-8q", 1, 1, 0),))


def vm(*devices: Any, on: bool = False) -> VmState:
    return VmState(
        ref="vm-1",
        name="one",
        instance_uuid="u",
        bios_uuid="b",
        hardware_version=19,
        on=on,
        host="host-1",
        host_name="esx-1",
        devices=tuple(Attached(at + 13000, one) for at, one in enumerate(devices)),
    )


ALL = (
    DynamicBacking((T4,), assigned="0000:3b:00.0"),
    VgpuBacking("grid_t4-8q"),
    DynamicBacking((T4,), "gold", "0000:af:00.0"),
)


def states(found: DevicesStatus) -> list[str]:
    return [one.state for one in found.devices]


def test_reserved_devices_are_reported_as_reserved() -> None:
    found = devices_status(WANTED, RESERVED, None, host_name="esx-1")
    assert (states(found), found.ready, found.reason) == (["Reserved"] * 3, False, "Reserved")
    assert {one.host for one in found.devices} == {"esx-1"}
    assert "esx-1" in found.message
    assert "'gold'" in found.message


def test_what_is_attached_is_reported_with_key_and_backing() -> None:
    found = devices_status(WANTED, RESERVED, vm(*ALL))
    assert (found.ready, found.reason, states(found)) == (True, "Attached", ["Attached"] * 3)
    assert [one.key for one in found.devices] == [13002, 13000, 13001]
    assert [one.attached for one in found.devices] == [
        "0000:af:00.0",
        "0000:3b:00.0",
        "grid_t4-8q",
    ]


def test_a_machine_that_lost_a_device_is_not_ready() -> None:
    found = devices_status(WANTED, RESERVED, vm(*ALL[:2], on=True), refusal=REFUSAL)
    assert (found.ready, found.reason) == (False, "PCIDevicesMissing")
    assert states(found) == ["Missing", "InUse", "InUse"]
    assert "10de:1eb8 labelled 'gold'" in found.message


def test_a_refusal_and_a_fault_are_reported_in_their_words() -> None:
    refused = devices_status(WANTED, None, None, refusal=REFUSAL)
    assert (refused.reason, states(refused)) == ("NoRoom", ["Refused"] * 3)
    assert refused.message == REFUSAL.words == refused.devices[0].message
    fault = Fault("InsufficientGraphicsResourcesFault", "zu wenig Grafik")
    failed = devices_status(WANTED, RESERVED, vm(ALL[0]), fault=fault)
    assert failed.reason == fault.type
    assert failed.message == "zu wenig Grafik (InsufficientGraphicsResourcesFault)"
    assert states(failed) == ["Refused", "Attached", "Refused"]


def test_what_is_attached_and_cannot_be_had_is_not_ready() -> None:
    found = devices_status(WANTED, None, vm(*ALL), refusal=REFUSAL)
    assert (found.ready, found.reason, found.message) == (False, "NoRoom", REFUSAL.words)
    assert states(found) == ["Attached"] * 3


def test_more_than_requested_is_reported() -> None:
    found = devices_status(Requested((PLAIN,)), RESERVED, vm(*ALL, on=True))
    assert found.ready
    assert "2 attached that the Machine does not request" in found.message


@given(
    st.lists(st.sampled_from(WANTED.devices), max_size=4),
    st.lists(st.sampled_from(ALL), max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_ready_means_that_every_item_is_served(
    requested_item: list[Any], devices: list[Any], on: bool, reserved: bool
) -> None:
    found = devices_status(
        Requested(tuple(requested_item)), RESERVED if reserved else None, vm(*devices, on=on)
    )
    assert found.ready == all(one.state in ("Attached", "InUse") for one in found.devices)
    keys = [one.key for one in found.devices if one.key]
    assert len(keys) == len(set(keys))
    assert found.reason
    assert found.message
