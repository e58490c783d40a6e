"""A capture is the same machine to a scan, and does not say which machine it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from laneway.core.inventory import Inventory
from laneway.host.capture import capture
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.sim import dump
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import first

MakeHost = Callable[..., SimulatedHost]


def reloaded(host: SimulatedHost | RealHost) -> Inventory:
    return scan(SimulatedHost("node", dump.parse(capture(host)), {}))


@pytest.mark.parametrize("model", first("dump", "a2", "l40s", "a100", "hgx-h100", "plain"))
def test_a_captured_host_scans_as_the_host_did(model: str, a2_dump_path: Path) -> None:
    host = build(parse_spec(str(a2_dump_path) if model == "dump" else model), "node")
    before, after = scan(host), reloaded(host)
    assert after.functions == before.functions
    assert after.vgpus == before.vgpus
    assert [(nic.name, nic.address) for nic in after.interfaces] == [
        (nic.name, nic.address) for nic in before.interfaces
    ]
    assert [msgspec.structs.replace(usb, serial="") for usb in after.usb] == [
        msgspec.structs.replace(usb, serial="") for usb in before.usb
    ]
    assert after.errors == ()


def test_a_configured_vgpu_is_captured() -> None:
    host = build(parse_spec("l40s"), "node")
    vf = scan(host).vgpus[5]
    host.write(f"/sys/bus/pci/devices/{vf.address}/nvidia/current_vgpu_type", "1150")
    assert reloaded(host).vgpus[5].configured is not None
    assert reloaded(host).vgpus == scan(host).vgpus


def test_the_stack_over_a_nic_is_captured_and_pods_are_not(a2_dump_path: Path) -> None:
    host = build(parse_spec(str(a2_dump_path)), "node")
    assert "cali" in " ".join(host.names("/sys/class/net"))
    text = capture(host)
    assert "cali" not in text
    again = SimulatedHost("again", dump.parse(text), {})
    assert sorted(again.names("/sys/class/net")) == [
        "eno49",
        "eno50",
        "flannel.1",
        "mgmt-bo",
        "mgmt-br",
    ]
    assert [str(a) for a, reasons in scan(again).critical.items() if "mgmt-bo" in str(reasons)] == [
        "0000:00:02.2",
        "0000:04:00.1",
    ]


SECRETIVE = """
    P: /devices/pci0000:00/0000:00:03.0
    E: SUBSYSTEM=pci
    E: PCI_CLASS=20000
    E: PCI_ID=8086:1
    A: secret_key=hunter2\\n
    A: class=0x020000\\n
    A: resource=0x00005cb90189c6e4 0x0000000000000000 0x0000000000000000\\n

    P: /devices/pci0000:00/0000:00:03.0/net/enx5cb90189c6e4
    E: SUBSYSTEM=net
    E: INTERFACE=enx5cb90189c6e4
    A: address=5c:b9:01:89:c6:e4\\n

    P: /devices/virtual/net/bond0
    E: SUBSYSTEM=net
    A: address=5C:B9:01:89:C6:E4\\n
    L: lower_enx5cb90189c6e4=../../../pci0000:00/0000:00:03.0/net/enx5cb90189c6e4
    L: lower_veth9=../veth9

    P: /devices/virtual/net/veth9
    E: SUBSYSTEM=net

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-1
    E: SUBSYSTEM=usb
    E: ID_SERIAL=PDNLH0BRH7T0VO
    A: idVendor=0781\\n
    A: idProduct=5581\\n
    A: busnum=3\\n
    A: devnum=2\\n
    A: bDeviceClass=08\\n
    A: product=Disk of NODE7 and node77\\n
    A: serial=PDNLH0BRH7T0VO\\n

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-2
    E: SUBSYSTEM=usb
    A: idVendor=0781\\n
    A: idProduct=5581\\n
    A: busnum=3\\n
    A: devnum=3\\n
    A: bDeviceClass=08\\n
    A: serial=PDNLH0BRH7T0VO\\n
"""


def test_nothing_names_the_machine(host_of: MakeHost) -> None:
    host = host_of(SECRETIVE)
    host.tree.put("/proc/sys/kernel/hostname", b"node7.example.org\n")
    text = capture(host)
    for original in ("5c:b9:01", "enx5cb90189c6e4", "PDNLH0BRH7T0VO", "hunter2", "veth9"):
        assert original.lower() not in text.lower()
    assert "A: product=Disk of host and node77\\n" in text  # another word stays
    assert "0x00005cb90189c6e4" in text  # an address range, no MAC address
    # The same stand-in wherever the same original was, so that relations survive.
    again = SimulatedHost("again", dump.parse(text), {})
    (nic,) = scan(again).interfaces
    assert nic.name == f"enx{nic.mac.replace(':', '')}"
    assert again.exists(f"/sys/class/net/bond0/lower_{nic.name}/address")
    assert len({usb.serial for usb in scan(again).usb}) == 1
    assert capture(host) == text


def test_what_the_format_cannot_hold_is_left_out(host_of: MakeHost) -> None:
    host = host_of(SECRETIVE)
    home = "/sys/devices/pci0000:00/0000:00:03.0/net/a\x7fb"
    host.tree.put(f"{home}/address", b"\n")
    host.tree.link("/sys/class/net/a\x7fb", home)
    host.tree.link("/sys/devices/virtual/net/bond0/lower_a=b", home)
    host.tree.link("/sys/devices/pci0000:00/0000:00:03.0/iommu_group", "/sys/a\nb")
    dump.parse(capture(host))


def test_this_machine_can_be_captured() -> None:
    host = RealHost()
    if not host.exists("/sys/bus/pci/devices"):
        pytest.skip("this machine has no PCI")
    found = reloaded(host)
    assert [f.address for f in found.functions] == [f.address for f in scan(host).functions]
