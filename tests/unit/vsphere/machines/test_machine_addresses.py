"""Which of all the addresses that a guest tells are a machine's: those that others can reach."""

from __future__ import annotations

from typing import Any

from laneway.kube import capv
from support.memory_vcenter import MemoryVCenter

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
OWN = ""
"""The simulator's word for the card of the VM itself."""
DOCKER = {"02:42:ac:11:00:01": ["172.17.0.1", "fe80::42:acff:fe11:1"]}
LINK_LOCAL = {OWN: ["fe80::250:56ff:fe00:1", "169.254.7.7"]}
LIMIT = 128
"""Of a status's addresses, in CAPV's definitions."""


def addresses(machine: Any) -> list[tuple[str, str]]:
    return [(one["type"], one["address"]) for one in machine.status.addresses]


async def test_a_machine_is_not_ready_by_unreachable_addresses(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    vcenter.guests(addresses=False, others=DOCKER | LINK_LOCAL)
    await works.machine("one", T4)
    await works.lead()
    vm = await works.until_says("one", "VirtualMachineProvisioned", "WaitingForIPAddress")
    assert vcenter.vms()["one"]["ip"] == "172.17.0.1"
    assert not vm.status.ready
    assert not vm.status.addresses
    vcenter.guests(others=DOCKER | LINK_LOCAL)
    machine = await works.until_ready("one")
    own = vcenter.vms()["one"]["ip"]
    assert addresses(machine) == [("ExternalIP", own), ("InternalDNS", "one")]


async def test_addresses_of_services_do_not_fill_the_status(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    services = {"ee:ee:ee:ee:ee:ee": [f"10.96.{n // 250}.{n % 250 + 1}" for n in range(300)]}
    vcenter.guests(others=services)
    await works.machine("one", T4)
    await works.lead()
    machine = await works.until_ready("one")
    own = vcenter.vms()["one"]["ip"]
    assert addresses(machine) == [("ExternalIP", own), ("InternalDNS", "one")]


async def test_no_more_addresses_are_reported_than_a_status_may_have(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    vcenter.guests(others={OWN: [f"2001:db8::{n:x}" for n in range(1, 300)]})
    await works.machine("one", T4)
    await works.lead()
    machine = await works.until_ready("one")
    own = vcenter.vms()["one"]["ip"]
    assert len(machine.status.addresses) == LIMIT
    assert addresses(machine)[0] == ("ExternalIP", own)
    assert addresses(machine)[-1] == ("InternalDNS", "one")
    vm = await works.get(capv.VSPHERE_VMS, "one")
    assert len(vm.status.addresses) < LIMIT
