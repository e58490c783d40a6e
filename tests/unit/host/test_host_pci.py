"""PCI functions: every fact from where the kernel puts it, and odd hardware with good."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from laneway.core.inventory import Inventory
from laneway.core.pci import Bar, Link, PciAddress, PciFunction
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from laneway.sim.tree import Attribute

MakeHost = Callable[..., SimulatedHost]
Address = Callable[[str], PciAddress]

NIC = """
    P: /devices/pci0000:00/0000:00:02.0
    E: SUBSYSTEM=pci
    E: DRIVER=pcieport
    E: PCI_CLASS=60400
    E: PCI_ID=8086:2F04

    P: /devices/pci0000:00/0000:00:02.0/0000:03:00.0
    E: SUBSYSTEM=pci
    E: DRIVER=mlx5_core
    E: PCI_CLASS=20000
    E: PCI_ID=15B3:101D
    E: PCI_SUBSYS_ID=15B3:0016
    A: numa_node=1\\n
    A: current_link_speed=8.0 GT/s PCIe\\n
    A: current_link_width=8\\n
    A: max_link_speed=16.0 GT/s PCIe\\n
    A: max_link_width=16\\n
    A: reset_method=flr bus\\n
    A: sriov_totalvfs=16\\n
    A: sriov_numvfs=2\\n
    L: iommu_group=../../../../kernel/iommu_groups/42
"""
VFS = "L: virtfn0=../0000:03:00.1\nL: virtfn1=../0000:03:00.2\n"
BARS = (
    "0x0000000093000000 0x0000000093ffffff 0x0000000000040200\\n"
    "0x0000039000000000 0x00000393ffffffff 0x000000000014220c\\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\\n"
    "0x000000000000e000 0x000000000000e07f 0x0000000000040101\\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\\n"
    "0x0000000094000000 0x000000009407ffff 0x0000000000046200\\n"
)


def only(inventory: Inventory, address: PciAddress) -> PciFunction:
    return next(function for function in inventory.functions if function.address == address)


def test_a_function_with_everything(host_of: MakeHost, address: Address) -> None:
    host = host_of(f"{NIC}A: resource={BARS}\n{VFS}")
    inventory = scan(host)
    assert inventory.errors == ()
    assert only(inventory, address("03:00.0")) == PciFunction(
        address=address("03:00.0"),
        vendor="15b3",
        device="101d",
        subsystem_vendor="15b3",
        subsystem_device="0016",
        class_code="020000",
        driver="mlx5_core",
        iommu_group=42,
        numa_node=1,
        link=Link(speed="8.0 GT/s PCIe", width=8, max_speed="16.0 GT/s PCIe", max_width=16),
        bars=(
            Bar(index=0, size=16 << 20),
            Bar(index=1, size=16 << 30, prefetchable=True, wide=True),
            Bar(index=3, size=128, io=True),
        ),
        reset_methods=("flr", "bus"),
        total_vfs=16,
        vfs=(address("03:00.1"), address("03:00.2")),
        num_vfs=2,
        upstream=address("00:02.0"),
    )


def test_functions_come_in_the_order_of_the_hardware(host_of: MakeHost) -> None:
    text = "\n\n".join(
        f"P: /devices/pci/{name}\nE: SUBSYSTEM=pci\nE: PCI_CLASS=20000\nE: PCI_ID=8086:1"
        for name in ("10000:00:00.0", "0000:ff:1f.7", "0000:0a:00.0", "0000:02:00.0")
    )
    found = [str(function.address) for function in scan(host_of(text)).functions]
    assert found == ["0000:02:00.0", "0000:0a:00.0", "0000:ff:1f.7", "10000:00:00.0"]


def test_vfs_are_counted_and_not_spelt(host_of: MakeHost, address: Address) -> None:
    links = "".join(f"L: virtfn{n}=../0000:03:{n // 8:02x}.{n % 8}\n" for n in range(15, 0, -1))
    function = only(scan(host_of(NIC + links)), address("03:00.0"))
    assert [vf.device * 8 + vf.function for vf in function.vfs] == list(range(1, 16))


@pytest.mark.parametrize("attribute", ["sriov_numvfs", "uevent", "driver_override"])
def test_what_can_wait_for_a_virtual_machine_is_not_read(
    host_of: MakeHost, address: Address, attribute: str
) -> None:
    def waits() -> bytes:
        raise AssertionError(f"{attribute} was read")

    ids = "A: vendor=0x15b3\\n\nA: device=0x101d\\n\nA: class=0x020000\\n\n"
    host = host_of(f"{NIC}{ids}{VFS}")
    home = "/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0"
    host.tree.put(f"{home}/{attribute}", Attribute(show=waits))
    assert only(scan(host), address("03:00.0")).num_vfs == 2


def test_a_driver_that_is_letting_go_counts_no_more(host_of: MakeHost, address: Address) -> None:
    # While it waits for a virtual machine, only `uevent` still tells of it.
    ids = "A: vendor=0x15b3\\n\nA: device=0x101d\\n\nA: class=0x020000\\n\n"
    host = host_of(NIC + ids)
    host.tree.discard("/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/driver")
    assert only(scan(host), address("03:00.0")).driver == ""


def test_a_vf_takes_its_ids_from_the_kernel_and_has_no_link(
    host_of: MakeHost, address: Address
) -> None:
    host = host_of(
        f"""{NIC}

        P: /devices/pci0000:00/0000:00:02.0/0000:03:00.1
        E: SUBSYSTEM=pci
        A: vendor=0x15b3\\n
        A: device=0x101e\\n
        A: class=0x020000\\n
        H: config=FFFFFFFF
        A: current_link_speed=Unknown\\n
        A: current_link_width=0\\n
        A: max_link_speed=16.0 GT/s PCIe\\n
        L: physfn=../0000:03:00.0
        """
    )
    vf = only(scan(host), address("03:00.1"))
    assert (vf.vendor, vf.device, vf.class_code) == ("15b3", "101e", "020000")
    assert (vf.physfn, vf.total_vfs, vf.link) == (address("03:00.0"), None, Link())


def test_unknown_is_never_zero(host_of: MakeHost, address: Address) -> None:
    host = host_of(
        """
        P: /devices/pci0000:00/0000:00:00.0
        E: SUBSYSTEM=pci
        E: PCI_CLASS=60000
        E: PCI_ID=8086:2F00
        A: numa_node=-1\\n
        """
    )
    bare = only(scan(host), address("00:00.0"))
    assert bare.numa_node is None
    assert bare.iommu_group is None
    assert bare.total_vfs is None
    assert bare.upstream is None
    assert scan(host).errors == ()


@pytest.mark.parametrize(
    ("vf_device", "class_code", "vendor"),
    [("0", "30200", "10DE"), ("", "30200", "10DE"), ("1", "20000", "10DE"), ("1", "30200", "1002")],
)
def test_what_is_no_gpu_with_vgpus(
    host_of: MakeHost, address: Address, vf_device: str, class_code: str, vendor: str
) -> None:
    def offers(vf_device: str, class_code: str, vendor: str) -> bool:
        host = host_of(
            f"""
            P: /devices/pci0000:00/0000:03:00.0
            E: SUBSYSTEM=pci
            E: PCI_CLASS={class_code}
            E: PCI_ID={vendor}:25B6
            A: sriov_totalvfs=16\\n
            A: sriov_vf_device={vf_device}\\n
            """
        )
        return only(scan(host), address("03:00.0")).sriov_gpu

    assert offers("25b6", "30200", "10DE")
    assert not offers(vf_device, class_code, vendor)


ABSURD = {
    "numa_node": "every",
    "current_link_width": "-8",
    "sriov_totalvfs": "99999999999999999999999",
    "resource": "0x0000000000000010 0x0000000000000000 0x0000000000040200",
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_attribute_is_an_error_on_its_device_alone(
    host_of: MakeHost, address: Address, name: str
) -> None:
    good = only(scan(host_of(NIC)), address("00:02.0"))
    value = ABSURD[name]
    lines = [line for line in NIC.splitlines() if f"A: {name}=" not in line]
    inventory = scan(host_of("\n".join([*lines, f"A: {name}={value}\\n"])))
    assert only(inventory, address("00:02.0")) == good
    assert only(inventory, address("03:00.0")).driver == "mlx5_core"
    (error,) = inventory.errors
    assert error.device == "0000:03:00.0"
    assert error.message.startswith(f"{name}: ")
    assert value[:20] in error.message


def test_a_device_without_ids_is_left_out_and_named(host_of: MakeHost, address: Address) -> None:
    host = host_of(f"{NIC}\nP: /devices/pci0000:00/0000:00:1f.0\nE: SUBSYSTEM=pci\n")
    inventory = scan(host)
    assert [f.address for f in inventory.functions] == [address("00:02.0"), address("03:00.0")]
    (error,) = inventory.errors
    assert error.device == "0000:00:1f.0"
    assert "vendor, device or class" in error.message


def test_an_unreadable_attribute_is_an_error_and_the_rest_is_there(
    host_of: MakeHost, address: Address
) -> None:
    def fail() -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    host = host_of(NIC)
    home = "/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0"
    host.tree.put(f"{home}/numa_node", Attribute(show=fail))
    inventory = scan(host)
    assert only(inventory, address("03:00.0")).iommu_group == 42
    (error,) = inventory.errors
    assert error.message == "numa_node: cannot be read: Input/output error"


@pytest.mark.parametrize("model", ["a2", "workstation"])
def test_ids_printed_together_are_those_of_their_own_files(model: str) -> None:
    host = build(parse_spec(model), "node")
    together = scan(host)
    homes = [f"/sys/bus/pci/devices/{one.address}" for one in together.functions]
    for home in homes:
        host.tree.discard(f"{home}/modalias")
    assert scan(host) == together


@pytest.mark.parametrize(
    "modalias",
    [
        b"pci:v000010DEd000025B6sv000010DEsd0000157Ebc03sc02\n",
        b"usb:v000010DEd000025B6sv000010DEsd0000157Ebc03sc02i00\n",
        b"pci:v123410DEd000025B6sv000010DEsd0000157Ebc03sc02i00\n",
        b"",
        errno.EIO,
    ],
)
def test_ids_come_from_their_own_files_where_no_line_tells_them_all(
    modalias: bytes | int, host_of: MakeHost, address: Address
) -> None:
    def show() -> bytes:
        if isinstance(modalias, int):
            raise OSError(modalias, "made to fail")
        return modalias

    host = host_of(f"{NIC}A: vendor=0x15b3\\n\nA: device=0x101d\\n\nA: class=0x020000\\n\n")
    home = host.resolve("/sys/bus/pci/devices/0000:03:00.0")
    host.tree.put(f"{home}/modalias", Attribute(show=show))
    inventory = scan(host)
    found = only(inventory, address("03:00.0"))
    assert (found.vendor, found.device, found.class_code) == ("15b3", "101d", "020000")
    assert inventory.errors == ()


@pytest.mark.parametrize("attribute", ["uevent", "numa_node", "sriov_totalvfs"])
def test_a_device_that_vanishes_while_it_is_read_is_no_error(
    host_of: MakeHost, address: Address, attribute: str
) -> None:
    host = host_of(NIC)
    home = "/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0"

    def unplugged() -> bytes:
        host.unplug(home)
        raise OSError(errno.ENODEV, "No such device")

    host.tree.put(f"{home}/{attribute}", Attribute(show=unplugged))
    inventory = scan(host)
    assert [function.address for function in inventory.functions] == [address("00:02.0")]
    assert inventory.errors == ()


def test_a_listed_device_that_is_gone_is_no_error(host_of: MakeHost, address: Address) -> None:
    host = host_of(NIC)
    host.tree.discard("/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0")
    inventory = scan(host)
    assert [function.address for function in inventory.functions] == [address("00:02.0")]
    assert inventory.errors == ()


def test_a_machine_without_pci_is_said_to_be_one(host_of: MakeHost) -> None:
    host = host_of("P: /devices/virtual/tty/tty0\nE: SUBSYSTEM=tty\n")
    inventory = scan(host)
    assert inventory.functions == ()
    (error,) = inventory.errors
    assert error.device == "/sys/bus/pci/devices"
    assert "No such file" in error.message
