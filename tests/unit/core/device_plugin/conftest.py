"""Inventories and claims of any kind, and their holders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from laneway.core.device_plugin.device_list import ClaimedFunction, ClaimedUsb, DesiredDevices
from laneway.core.inventory import (
    ConfiguredVgpu,
    Inventory,
    UsbDevice,
    VgpuFunction,
)
from laneway.core.pci import PciAddress, PciFunction

PROFILES = ("NVIDIA A2-2Q", "NVIDIA A2-4Q", "odd \u00fc profile/" + "x" * 90, "")
ADDRESSES = [PciAddress(0, 8, 0, number) for number in range(6)]
TEXTS = st.sampled_from(["", "acme.com/one", "no name", "a.b/" + "y" * 70])


@st.composite
def functions(draw: Any) -> list[PciFunction]:
    there = draw(st.lists(st.sampled_from(ADDRESSES), unique=True))
    return [
        PciFunction(
            address=address,
            vendor="10de",
            device=draw(st.sampled_from(["25b6", "ffff"])),
            class_code=draw(st.sampled_from(["030200", "040300", "060400"])),
            driver=draw(st.sampled_from(["vfio-pci", "nvidia", "snd_hda_intel", ""])),
            iommu_group=draw(st.sampled_from([None, 1, 2])),
            numa_node=draw(st.sampled_from([None, 0, 1])),
        )
        for address in sorted(there)
    ]


@st.composite
def inventories(draw: Any) -> Inventory:
    there = draw(functions())
    vgpus = [
        VgpuFunction(
            address=function.address,
            parent=ADDRESSES[0],
            framework=draw(st.sampled_from(["mdev", "vendor-vfio"])),
            supported=(),
            creatable=(),
            configured=draw(
                st.none()
                | st.builds(
                    ConfiguredVgpu,
                    type_id=st.just("7"),
                    type_name=st.sampled_from(PROFILES),
                    uuid=st.just(f"uuid-{function.address}"),
                    iommu_group=st.sampled_from([None, 10 + function.address.function]),
                )
            ),
        )
        for function in there
        if draw(st.booleans())
    ]
    usb = [
        UsbDevice(
            port=f"3-{number}",
            vendor="046d",
            product="c52b",
            bus=3,
            number=number,
            class_code="03",
            device_path=f"/dev/bus/usb/003/{number:03d}",
        )
        for number in draw(st.lists(st.integers(1, 3), unique=True))
    ]
    return Inventory(functions=tuple(there), vgpus=tuple(vgpus), usb=tuple(usb))


def desired_states() -> st.SearchStrategy[DesiredDevices]:
    return st.builds(
        DesiredDevices,
        functions=st.lists(
            st.builds(
                ClaimedFunction,
                address=st.sampled_from(ADDRESSES),
                override=TEXTS,
                pinned=st.booleans(),
                skip_binding=st.booleans(),
                leaving=st.booleans(),
            )
        ).map(tuple),
        usb=st.lists(
            st.builds(
                ClaimedUsb,
                name=st.sampled_from(["node1-046d-c52b-003001", "other"]),
                port=st.sampled_from(["3-1", "3-2"]),
                path=st.sampled_from(["/dev/bus/usb/003/001", "/dev/bus/usb/003/002"]),
                leaving=st.booleans(),
            )
        ).map(tuple),
        profiles=st.dictionaries(st.sampled_from(ADDRESSES), st.sampled_from(PROFILES)),
        annotations=st.dictionaries(st.sampled_from(ADDRESSES), TEXTS),
    )


@pytest.fixture(scope="session")
def worlds() -> st.SearchStrategy[tuple[Inventory, DesiredDevices]]:
    """Any inventory with any desired states."""
    return st.tuples(inventories(), desired_states())
