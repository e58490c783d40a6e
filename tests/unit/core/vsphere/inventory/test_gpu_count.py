"""GPUs of machines that do not exist yet."""

from __future__ import annotations

import pytest

from laneway.core.vsphere.inventory.gpu_count import gpus_of
from laneway.core.vsphere.inventory.hosts import Device, DeviceGroup, GroupPart, Host
from laneway.core.vsphere.spec.requests import (
    Asked,
    AskedDevice,
    AskedGroup,
    AskedVgpu,
    PciIds,
    Wanted,
)

T4 = PciIds(0x10DE, 0x1EB8)
BRIDGE = PciIds(0x10DE, 0x22A3)
NIC = PciIds(0x15B3, 0x1021)
GROUP = DeviceGroup(
    "two and a port",
    parts=(
        GroupPart("pciPassthru", "T4", ids=T4),
        GroupPart("nvidiaVgpu", "T4", profile="grid_t4-8q"),
        GroupPart("pciPassthru", "ConnectX-7", ids=NIC),
        GroupPart("pciPassthru", "NVSwitch", ids=BRIDGE),
    ),
)
HOSTS = [
    Host("host-1", "a", devices=(Device("0000:3b:00.0", T4, display=True),)),
    Host(
        "host-2",
        "b",
        devices=(Device("0000:3b:00.0", BRIDGE), Device("0000:3c:00.0", NIC)),
        device_groups=(GROUP,),
    ),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], 0),
        ([AskedVgpu("grid_t4-8q"), AskedVgpu("grid_t4-8q")], 2),
        ([AskedDevice((T4,)), AskedDevice((T4,), "lab-a"), AskedDevice((NIC,))], 2),
        ([AskedDevice((BRIDGE,))], 0),
        ([AskedDevice((PciIds(0x10DE, 0x2330),))], 1),  # which no host has yet
        ([AskedDevice((T4, PciIds(0x10DE, 0x2330)))], 1),
        ([AskedDevice((T4, NIC)), AskedVgpu("grid_t4-8q")], None),  # one or two
        ([AskedGroup("two and a port")], 2),
        ([AskedGroup("unheard of"), AskedVgpu("grid_t4-8q")], None),
    ],
)
def test_what_is_certain_is_counted(asked: list[Asked], expected: int | None) -> None:
    assert gpus_of(Wanted(tuple(asked)), HOSTS) == expected


def test_without_any_host_nvidias_devices_count() -> None:
    assert gpus_of(Wanted((AskedDevice((T4,)), AskedDevice((NIC,)))), []) == 1
