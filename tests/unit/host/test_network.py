"""Interfaces on functions, and through which the node is reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.host import network
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

MakeHost = Callable[..., SimulatedHost]

NICS = """
    P: /devices/pci0000:00/0000:04:00.0/net/eno1
    E: SUBSYSTEM=net
    A: address=02:aa:00:00:00:01\\n

    P: /devices/pci0000:00/0000:04:00.1/net/eno2
    E: SUBSYSTEM=net
    A: address=02:aa:00:00:00:02\\n

    P: /devices/pci0000:00/0000:05:00.0/virtio1/net/eth0
    E: SUBSYSTEM=net
    A: address=odd\\n

    P: /devices/pci0000:00/0000:00:14.0/usb3/3-2/3-2:1.0/net/usb0
    E: SUBSYSTEM=net
    A: address=02:aa:00:00:00:04\\n

    P: /devices/virtual/net/lo
    E: SUBSYSTEM=net

    P: /devices/virtual/net/bond0
    E: SUBSYSTEM=net
    E: DEVTYPE=bond
    L: lower_eno1=../../../pci0000:00/0000:04:00.0/net/eno1
    L: lower_eno2=../../../pci0000:00/0000:04:00.1/net/eno2

    P: /devices/virtual/net/bond0.7
    E: SUBSYSTEM=net
    E: DEVTYPE=vlan
    L: lower_bond0=../bond0
"""
HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def reasons(host: SimulatedHost) -> dict[str, str]:
    """The interface at the end of a path to the reason for it."""
    needs = network.needs(host, network.read_interfaces(host, []))
    return {need.path.rpartition("/")[2]: need.reason for need in needs}


def reached(host: SimulatedHost) -> dict[str, str]:
    """The same for those that the node is reached through alone."""
    return {name: text for name, text in reasons(host).items() if text.startswith("carries ")}


def route(name: str, destination: str = "00000000", flags: str = "0003") -> str:
    mask = "00000000" if destination == "00000000" else "00FFFFFF"
    return f"{name}\t{destination}\t0100000A\t{flags}\t0\t0\t100\t{mask}\t0\t0\t0\n"


def test_interfaces_belong_to_their_function(host_of: MakeHost) -> None:
    errors: list[object] = []
    found = network.read_interfaces(host_of(NICS), errors).on_pci  # type: ignore[arg-type]
    # An adapter on USB is the hardware of no PCI function.
    assert [(nic.name, str(nic.address), nic.mac) for nic in found] == [
        ("eno1", "0000:04:00.0", "02:aa:00:00:00:01"),
        ("eno2", "0000:04:00.1", "02:aa:00:00:00:02"),
        ("eth0", "0000:05:00.0", ""),
    ]
    assert errors == []


def test_a_default_route_over_vlan_and_bond_reaches_both_nics(host_of: MakeHost) -> None:
    host = host_of(
        NICS, {"/proc/1/net/route": HEADER + route("eno2", "000010AC") + route("bond0.7")}
    )
    base = "carries the default route (bond0.7)"
    assert reasons(host) == {
        "bond0.7": base,
        "bond0": f"{base}: bond0 is part of vlan bond0.7",
        "eno1": f"{base}: eno1 is part of bond bond0",
        "eno2": f"{base}: eno2 is part of bond bond0",
    }


def test_the_default_route_of_ipv6_counts_too(host_of: MakeHost) -> None:
    zero = "0" * 32
    gateway = "fe80" + "0" * 27 + "1"
    lines = (
        f"{zero} 00 {zero} 00 {gateway} 00000400 00000001 00000000 00000003     eth0\n"
        f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        f"fe80{'0' * 28} 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eno1\n"
    )
    assert set(reached(host_of(NICS, {"/proc/1/net/ipv6_route": lines}))) == {"eth0"}


def test_the_network_of_pid_1_is_the_nodes(host_of: MakeHost) -> None:
    host = host_of(NICS, {"/proc/1/net/route": HEADER + route("eno1")})
    host.tree.discard("/proc/self")
    host.tree.put("/proc/self/net/route", (HEADER + route("eth0")).encode())
    assert set(reasons(host)) == {"eno1"}
    # An agent that may not look there takes its own for the node's.
    host.tree.discard("/proc/1")
    assert set(reasons(host)) == {"eth0"}


@pytest.mark.parametrize(
    "table",
    [
        "",
        HEADER,
        HEADER + route("eno1", flags="0203"),  # reject
        HEADER + route("eno1", flags="0002"),  # down
        HEADER + route("eno1", flags="what"),
        HEADER + route("gone0"),
        HEADER + "eno1 00000000\n\xff\n",
    ],
)
def test_what_is_no_default_route(host_of: MakeHost, table: str) -> None:
    assert reached(host_of(NICS, {"/proc/1/net/route": table})) == {}


def test_every_interface_with_an_address_serves_a_network(host_of: MakeHost) -> None:
    host = host_of(NICS, {"/proc/1/net/route": HEADER + route("eno2", "000010AC")})
    host.network(lambda net: net.give("eno1", "10.9.0.5/24"))
    host.network(lambda net: net.give("eth0", "fe80::7/64"))
    host.network(lambda net: net.give("usb0", "fd00::7/64"))
    base = "serves the node's network"
    assert reasons(host) == {
        "eno1": f"{base}: eno1 has the address 10.9.0.5/24",
        "eno2": f"{base}: eno2 has IPv4 routes",
        "usb0": f"{base}: usb0 has the address fd00::7/64",
    }


def test_every_member_of_an_uplink_serves_a_network_until_it_is_taken_out() -> None:
    """What Harvester makes of a VlanConfig: a bond of the cards below a bridge with VLANs."""
    host = build(parse_spec("plain"), "node")
    first, second = (PciAddress.parse(f"0000:17:00.{number}") for number in (0, 1))
    assert not {first, second} & scan(host).critical.keys()
    host.network(lambda net: net.add("vlan1-bo", "bond"))
    host.network(lambda net: net.add("vlan1-br", "bridge"))
    host.network(lambda net: net.stack("ens1f0", "vlan1-bo"))
    host.network(lambda net: net.stack("vlan1-bo", "vlan1-br"))
    critical = scan(host).critical
    assert second not in critical
    assert critical[first] == (
        "serves the node's network: ens1f0 is part of bond vlan1-bo, part of bridge vlan1-br",
    )
    host.network(lambda net: net.unstack("ens1f0"))
    assert first not in scan(host).critical
    host.network(lambda net: net.add("ens1f0.7", "vlan"))
    host.network(lambda net: net.stack("ens1f0", "ens1f0.7"))
    assert scan(host).critical[first] == (
        "serves the node's network: ens1f0 is part of vlan ens1f0.7",
    )


def test_an_interface_that_a_pod_has_keeps_its_card_from_being_claimed() -> None:
    host = build(parse_spec("plain"), "node")
    home = host.resolve("/sys/class/net/ens1f0")
    host.tree.discard(home)  # The directory around it stays while the interface is elsewhere.
    host.tree.discard("/sys/class/net/ens1f0")
    assert scan(host).critical[PciAddress.parse("0000:17:00.0")] == (
        "serves the node's network: its interface is in another namespace",
    )


def test_an_interface_comes_back_from_its_driver_without_what_stood_on_it() -> None:
    host = build(parse_spec("plain"), "node")
    card = "0000:17:00.0"
    host.network(lambda net: net.add("bond7", "bond"))
    host.network(lambda net: net.stack("ens1f0", "bond7"))
    host.network(lambda net: net.give("ens1f0", "10.9.0.5/24"))
    host.write(f"/sys/bus/pci/devices/{card}/driver/unbind", card)
    assert host.network(lambda net: net.addresses()) == []
    assert not [one for one in host.names("/sys/class/net/bond7") if one.startswith("lower_")]
    host.write("/sys/bus/pci/drivers_probe", card)
    assert host.exists("/sys/class/net/ens1f0")
    assert PciAddress.parse(card) not in scan(host).critical


def test_interfaces_stacked_in_a_circle_end(host_of: MakeHost) -> None:
    circle = NICS + "    L: lower_bond0.7=../bond0.7\n"
    assert "bond0.7" in reasons(host_of(circle, {"/proc/1/net/route": HEADER + route("bond0.7")}))


def test_the_management_network_of_the_recorded_server(a2_dump_path: Path) -> None:
    inventory = scan(build(parse_spec(str(a2_dump_path)), "node"))
    nics = {str(nic.address): nic.name for nic in inventory.interfaces}
    assert nics == {"0000:04:00.0": "eno49", "0000:04:00.1": "eno50"}
    assert PciAddress.parse("0000:04:00.0") not in inventory.critical
    assert inventory.critical[PciAddress.parse("0000:04:00.1")] == (
        "carries the management network (mgmt-br): eno50 is part of bond mgmt-bo",
    )
