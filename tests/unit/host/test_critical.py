"""The decision which functions and USB devices a node cannot do without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress, PciFunction
from laneway.host.critical import Need, decide

Address = Callable[[str], PciAddress]


def function(text: str, class_code: str = "020000", **fields: object) -> PciFunction:
    given_fields = {"vendor": "8086", "device": "0001", "class_code": class_code} | fields
    return PciFunction(
        address=PciAddress.parse(f"0000:{text}"),
        **given_fields,  # type: ignore[arg-type]
    )


def test_the_last_function_of_the_path_serves_and_bridges_carry(address: Address) -> None:
    functions = [
        function("00:01.0", "060400"),
        function("01:00.0", "060400", upstream=address("00:01.0")),
        function("02:00.0", "010802", upstream=address("01:00.0")),
        function("03:00.0", "010802"),
    ]
    path = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/nvme/nvme0/nvme0n1"
    found = decide(functions, [Need(path, "holds the root file system")])
    above = "bridge above 0000:02:00.0, which holds the root file system"
    assert found.functions == {
        address("00:01.0"): (above, "PCI bridge"),
        address("01:00.0"): (above, "PCI bridge"),
        address("02:00.0"): ("holds the root file system",),
    }
    assert found.usb == {}


def test_a_disk_on_usb_takes_its_hub_and_its_controller_along(address: Address) -> None:
    path = "/sys/devices/pci0000:00/0000:00:14.0/usb3/3-1/3-1.2/3-1.2:1.0/host0/block/sdb"
    found = decide([function("00:14.0", "0c0330")], [Need(path, "holds swap space (sdb)")])
    assert found.functions == {
        address("00:14.0"): ("controls USB device 3-1.2, which holds swap space (sdb)",)
    }
    assert found.usb == {
        "3-1.2": ("holds swap space (sdb)",),
        "3-1": ("hub above USB device 3-1.2, which holds swap space (sdb)",),
    }


def test_a_route_over_a_vf_needs_the_pf(address: Address) -> None:
    functions = [function("04:00.0"), function("04:00.1", physfn=address("04:00.0"))]
    path = "/sys/devices/pci0000:00/0000:04:00.1/net/eth0"
    found = decide(functions, [Need(path, "carries the default route (eth0)")])
    assert found.functions[address("04:00.0")] == (
        "physical function of 0000:04:00.1, which carries the default route (eth0)",
    )


def test_every_reason_is_reported_once(address: Address) -> None:
    path = "/sys/devices/pci0000:00/0000:00:17.0/block/sda"
    needs = [Need(path, "one"), Need(f"{path}/sda1", "two"), Need(path, "one")]
    assert decide([function("00:17.0")], needs).functions == {address("00:17.0"): ("one", "two")}


@pytest.mark.parametrize(
    ("class_code", "critical"),
    [
        ("060000", True),  # host bridge
        ("060100", True),  # ISA bridge
        ("060400", True),  # PCI bridge
        ("080600", True),  # IOMMU
        ("0c0701", True),  # IPMI
        ("068000", False),  # NVSwitch: given to VMs
        ("030200", False),
        ("010802", False),
        ("0c0330", False),
    ],
)
def test_the_role_that_a_class_gives(class_code: str, *, critical: bool) -> None:
    assert bool(decide([function("00:03.0", class_code)], []).functions) is critical


def test_a_gpu_that_shows_the_console_can_be_spared(address: Address) -> None:
    card = function("03:00.0", "030000", boot_vga=True)
    other = function("04:00.0", "030200")
    screen = "/sys/devices/pci0000:00/0000:04:00.0/drm/card1/graphics/fb0"
    found = decide([card, other], [Need(screen, "shows the virtual console (fb0)", "display")])
    assert found.functions == {}
    assert found.displays == {
        address("03:00.0"): ("is the boot display",),
        address("04:00.0"): ("shows the virtual console (fb0)",),
    }


def test_a_gpu_is_needed_for_anything_else_on_it(address: Address) -> None:
    card = function("03:00.0", "030000", boot_vga=True)
    serial = Need("/sys/devices/pci0000:00/0000:03:00.0/tty/ttyS4", "carries the system console")
    found = decide([card], [serial])
    assert found.functions == {address("03:00.0"): ("carries the system console",)}


@pytest.mark.parametrize("boot", [True, False])
@pytest.mark.parametrize("vendor", ["1a03", "102b"])
def test_the_display_of_a_service_processor_is_needed(
    address: Address, vendor: str, *, boot: bool
) -> None:
    card = function("03:00.0", "030000", vendor=vendor, boot_vga=boot)
    found = decide([card], [])
    assert "display of the management controller (BMC)" in found.functions[address("03:00.0")]
    assert found.displays == {}


def test_a_screen_on_usb_needs_its_controller(address: Address) -> None:
    path = "/sys/devices/pci0000:00/0000:00:14.0/usb3/3-1/graphics/fb0"
    found = decide([function("00:14.0", "0c0330")], [Need(path, "shows the console", "display")])
    assert address("00:14.0") in found.functions
    assert found.usb == {"3-1": ("shows the console",)}


def test_the_board_controller_is_known_by_its_driver(address: Address) -> None:
    found = decide([function("01:00.2", "088000", driver="hpilo")], [])
    assert found.functions == {address("01:00.2"): ("management controller (BMC)",)}


PARTS = st.sampled_from(
    ["0000:00:01.0", "0000:00:02.0", "0000:00:02.1", "usb3", "3-1", "3-1.2", "net", "", "..", "x"]
)
ADDRESSES = [PciAddress(0, 0, 1, 0), PciAddress(0, 0, 2, 0), PciAddress(0, 0, 2, 1)]


@given(
    st.lists(st.lists(PARTS, max_size=6).map("/".join), max_size=5),
    st.lists(
        st.tuples(
            st.sampled_from(ADDRESSES),
            st.none() | st.sampled_from([*ADDRESSES, PciAddress(0, 9, 0, 0)]),
            st.none() | st.sampled_from([*ADDRESSES, PciAddress(0, 9, 0, 0)]),
        ),
        unique_by=lambda row: row[0],
    ),
)
def test_any_hardware_gets_a_decision_about_itself(
    paths: list[str], rows: list[tuple[PciAddress, PciAddress | None, PciAddress | None]]
) -> None:
    # Also where bridges stand above each other in a circle.
    functions = [
        function(str(own)[5:], upstream=upstream, physfn=physfn) for own, upstream, physfn in rows
    ]
    needs = [Need(path, f"reason {number}") for number, path in enumerate(paths)]
    found = decide(functions, needs)
    known = {function.address for function in functions}
    assert found.functions.keys() <= known
    for path in paths:
        last = [part for part in path.split("/") if part.startswith("0000:")][-1:]
        if last and (own := PciAddress.parse(last[0])) in known:
            assert found.functions[own]
