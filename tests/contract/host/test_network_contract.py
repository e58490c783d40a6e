"""Network cards that the node uses, whether its own network or another stands on them.

A NIC is made part of what Harvester's VlanConfig makes, a bond below a VLAN-aware bridge, or gets
an address, by ip(8); the simulated host does the same to itself.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from laneway.core.passthrough import binding
from laneway.core.passthrough.usability import SERVES_NETWORK
from laneway.core.plan import Plan
from laneway.host.hardware import Hardware
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.machines import Machine, RigMachine, SimulatedMachine, hardware

RIG = os.environ.get("LANEWAY_RIG", "")


class Links(Protocol):
    """What an administrator does to the interfaces of a machine."""

    def add(self, name: str, kind: Literal["bond", "bridge"]) -> None: ...
    def stack(self, lower: str, upper: str) -> None: ...
    def unstack(self, lower: str) -> None: ...
    def delete(self, name: str) -> None: ...
    def give(self, name: str, address: str) -> None: ...
    def flush(self, name: str) -> None: ...


class _Simulated:
    def __init__(self, machine: SimulatedMachine) -> None:
        self._host = machine.host

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._host.network(
            lambda network: getattr(network, name)(*arguments)
        )


class _Real:
    def add(self, name: str, kind: Literal["bond", "bridge"]) -> None:
        _ip("link", "add", name, "type", kind)
        if kind == "bridge":
            Path(f"/sys/class/net/{name}/bridge/vlan_filtering").write_text("1")
        _ip("link", "set", name, "up")

    def stack(self, lower: str, upper: str) -> None:
        _ip("link", "set", lower, "down")
        _ip("link", "set", lower, "master", upper)
        _ip("link", "set", lower, "up")

    def unstack(self, lower: str) -> None:
        _ip("link", "set", lower, "nomaster")

    def delete(self, name: str) -> None:
        _ip("link", "delete", name)

    def give(self, name: str, address: str) -> None:
        _ip("address", "add", address, "dev", name)

    def flush(self, name: str) -> None:
        _ip("address", "flush", "dev", name)


def _ip(*arguments: str) -> None:
    command = ["busybox", "ip", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)


class Nic:
    """A network card that nothing uses."""

    def __init__(self, machine: Machine, links: Links, node: Hardware) -> None:
        self.links, self.node = links, node
        inventory = scan(machine.host)
        plain = (one for one in inventory.interfaces if one.address not in inventory.critical)
        found = next(plain)
        self.name, self.address = found.name, found.address

    def reasons(self) -> tuple[str, ...]:
        return scan(self.node.host).critical.get(self.address, ())

    async def bound(self) -> Any:
        """What is said to giving the card to a virtual machine."""
        return binding.bind(self.address, await observe(self.node, "node", [self.address]))


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[Nic]:
    if RIG:
        machine: Machine = RigMachine()
        links: Links = _Real()
    else:
        simulated = SimulatedMachine(build(Spec("plain"), "node"))
        machine, links = simulated, _Simulated(simulated)
    yield Nic(machine, links, hardware(machine, tmp_path))
    machine.close()


async def test_a_bond_below_a_vlan_aware_bridge_makes_its_member_critical(nic: Nic) -> None:
    nic.links.add("vlan1-bo", "bond")
    nic.links.add("vlan1-br", "bridge")
    nic.links.stack(nic.name, "vlan1-bo")
    nic.links.stack("vlan1-bo", "vlan1-br")
    expected = f"{nic.name} is part of bond vlan1-bo, part of bridge vlan1-br"
    try:
        assert nic.reasons() == (f"{SERVES_NETWORK}: {expected}",)
        [refusal] = await nic.bound()
        assert expected in refusal.words
    finally:
        nic.links.delete("vlan1-br")
        nic.links.unstack(nic.name)
        nic.links.delete("vlan1-bo")
    assert nic.reasons() == ()


async def test_an_address_makes_a_plain_card_critical_but_not_one_of_link_scope(nic: Nic) -> None:
    nic.links.give(nic.name, "fe80::5/64")
    assert isinstance(await nic.bound(), Plan)
    nic.links.give(nic.name, "10.9.0.5/24")
    try:
        assert nic.reasons() == (f"{SERVES_NETWORK}: {nic.name} has the address 10.9.0.5/24",)
        [refusal] = await nic.bound()
        assert "10.9.0.5/24" in refusal.words
    finally:
        nic.links.flush(nic.name)
    assert nic.reasons() == ()
