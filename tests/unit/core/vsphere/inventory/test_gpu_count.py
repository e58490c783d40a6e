"""GPUs of machines that do not exist yet."""

from __future__ import annotations

import pytest

from laneway.core.vsphere.inventory.gpu_count import gpus_of
from laneway.core.vsphere.inventory.hosts import Device, DeviceGroup, GroupPart, Host
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
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
    ("requested_item", "expected"),
    [
        ([], 0),
        ([VgpuRequest("grid_t4-8q"), VgpuRequest("grid_t4-8q")], 2),
        (
            [
                PassthroughRequest((T4,)),
                PassthroughRequest((T4,), "lab-a"),
                PassthroughRequest((NIC,)),
            ],
            2,
        ),
        ([PassthroughRequest((BRIDGE,))], 0),
        ([PassthroughRequest((PciIds(0x10DE, 0x2330),))], 1),  # which no host has yet
        ([PassthroughRequest((T4, PciIds(0x10DE, 0x2330)))], 1),
        ([PassthroughRequest((T4, NIC)), VgpuRequest("grid_t4-8q")], None),  # one or two
        ([GroupRequest("two and a port")], 2),
        ([GroupRequest("unheard of"), VgpuRequest("grid_t4-8q")], None),
    ],
)
def test_what_is_certain_is_counted(
    requested_item: list[DeviceRequest], expected: int | None
) -> None:
    assert gpus_of(Requested(tuple(requested_item)), HOSTS) == expected


def test_without_any_host_nvidias_devices_count() -> None:
    assert gpus_of(Requested((PassthroughRequest((T4,)), PassthroughRequest((NIC,)))), []) == 1
