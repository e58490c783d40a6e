"""Virtual functions of network cards, requested by their objects."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import PCIDevice, SRIOVNetworkDevice
from laneway.host.scan import scan
from support.examples import first

NIC = "node1-ens4f1"


def card(host: Any) -> Any:
    inventory = scan(host)
    address = next(nic.address for nic in inventory.interfaces if nic.name == "ens4f1")
    return next(f for f in inventory.functions if f.address == address)


async def ask(cluster: Any, count: int) -> None:
    await cluster.patch(SRIOVNetworkDevice, NIC, {"spec": {"numVFs": count}})


async def have(cluster: Any, count: int) -> Any:
    """Desired state it, and wait until it is so."""
    await ask(cluster, count)
    return await cluster.answer(NIC, "Enabled" if count else "Disabled", SRIOVNetworkDevice)


async def refused(cluster: Any, reason: str) -> str:
    return cluster.message(await cluster.answer(NIC, reason, SRIOVNetworkDevice))


@pytest.fixture
async def host(simulated: Any) -> Any:
    return simulated("plain", "node1")


@pytest.mark.realapi
async def test_none_some_more_and_none(cluster, host):
    await cluster.start_agent("node1", host)
    nic = await cluster.get(SRIOVNetworkDevice, NIC)
    assert nic.status.status == "sriovNetworkDeviceDisabled"

    for count in (4, 12, 2):
        nic = await have(cluster, count)
        assert list(nic.status.vf_addresses) == [str(vf) for vf in card(host).vfs]
        assert len(nic.status.vf_addresses) == count
        assert nic.status.status == "sriovNetworkDeviceEnabled"
        for name in nic.status.vf_pci_devices:
            await cluster.until(PCIDevice, name, lambda device: device is not None)
    names = list(nic.status.vf_pci_devices)

    nic = await have(cluster, 0)
    assert list(nic.status.vf_addresses) == []
    assert list(nic.status.vf_pci_devices) == []
    assert nic.status.status == "sriovNetworkDeviceDisabled"
    assert card(host).num_vfs == 0
    for name in names:
        await cluster.until(PCIDevice, name, lambda device: device is None)


async def test_functions_are_in_the_order_of_their_numbers(cluster, host):
    await cluster.start_agent("node1", host)

    nic = await have(cluster, 12)

    home = f"/sys/bus/pci/devices/{card(host).address}"
    links = [host.readlink(f"{home}/virtfn{number}") for number in range(12)]
    assert list(nic.status.vf_addresses) == [link.rpartition("/")[2] for link in links]


async def test_more_than_the_card_has_is_refused(cluster, host):
    await cluster.start_agent("node1", host)
    await have(cluster, 2)

    await ask(cluster, 4000)

    assert f"0 to {card(host).total_vfs}" in await refused(cluster, "VfCountInvalid")
    assert card(host).num_vfs == 2
    await have(cluster, 4)


@pytest.mark.usefixtures("impatient")
async def test_a_function_that_a_virtual_machine_holds_keeps_all(cluster, host):
    await cluster.start_agent("node1", host)
    nic = await have(cluster, 4)
    held = nic.status.vf_addresses[1]
    host.write(f"/sys/bus/pci/devices/{held}/driver_override", "vfio-pci")
    host.write("/sys/bus/pci/drivers_probe", held)
    group = host.resolve(f"/sys/bus/pci/devices/{held}/iommu_group").rpartition("/")[2]
    holder = host.hold(f"/dev/vfio/{group}", "qemu-system-x86")

    await ask(cluster, 8)

    words = await refused(cluster, "DeviceInUse")
    assert held in words
    assert "qemu-system-x86" in words
    assert len(card(host).vfs) == 4
    holder.release()
    nic = await cluster.answer(NIC, "Enabled", SRIOVNetworkDevice)
    assert len(nic.status.vf_addresses) == 8


async def test_functions_of_another_are_left_alone_until_taken_over(cluster, host):
    await cluster.start_agent("node1", host)
    path = f"/sys/bus/pci/devices/{card(host).address}/sriov_numvfs"

    host.write(path, "3")

    assert "3 virtual functions" in await refused(cluster, "UnmanagedVfs")
    await have(cluster, 3)
    host.write(path, "0")
    host.write(path, "5")
    assert "do not become 3" in await refused(cluster, "UnmanagedVfCount")
    assert card(host).num_vfs == 5
    await have(cluster, 0)
    assert card(host).num_vfs == 0


@pytest.mark.slow
async def test_after_a_reboot_they_come_back(cluster, host, simulated):
    agent = await cluster.start_agent("node1", host)
    await have(cluster, 6)
    await cluster.stop_agent(agent)

    rebooted = simulated("plain", "node1")
    await cluster.start_agent("node1", rebooted)

    nic = await cluster.answer(NIC, "Enabled", SRIOVNetworkDevice)
    assert card(rebooted).num_vfs == 6
    assert len(nic.status.vf_addresses) == 6


@pytest.mark.slow
async def test_an_uplink_keeps_its_functions_over_a_boot_and_gets_no_other_number(
    cluster, host, simulated
):
    def uplink(on: Any) -> None:
        on.network(lambda net: net.add("vlan1-bo", "bond"))
        on.network(lambda net: net.stack("ens4f1", "vlan1-bo"))

    agent = await cluster.start_agent("node1", host)
    await have(cluster, 6)
    uplink(host)
    await ask(cluster, 8)
    assert "ens4f1 is part of bond vlan1-bo" in await refused(cluster, "CriticalToNode")
    assert card(host).num_vfs == 6
    await ask(cluster, 6)
    await cluster.answer(NIC, "Enabled", SRIOVNetworkDevice)
    await cluster.stop_agent(agent)

    rebooted = simulated("plain", "node1")
    uplink(rebooted)
    await cluster.start_agent("node1", rebooted)
    await cluster.answer(NIC, "Enabled", SRIOVNetworkDevice)
    assert card(rebooted).num_vfs == 6


async def test_an_uplink_without_a_desired_state_has_no_object(cluster, host):
    host.network(lambda net: net.give("ens4f1", "10.9.0.5/24"))
    await cluster.start_agent("node1", host)
    assert "node1-ens4f0" in await cluster.names(SRIOVNetworkDevice)
    assert NIC not in await cluster.names(SRIOVNetworkDevice)


async def writes_of(host: Any, cluster: Any, count: int) -> int:
    before = host.faults.count
    await have(cluster, count)
    return int(host.faults.count - before)


@pytest.mark.slow
@pytest.mark.parametrize("when", first("during", "before", "after"))
async def test_an_agent_that_is_killed_at_any_write_ends_as_one_that_was_not(cluster, host, when):
    agent = await cluster.start_agent("node1", host)
    total = await writes_of(host, cluster, 2) and await writes_of(host, cluster, 4)
    assert total >= 2
    desired = 4
    for number in range(1, total + 1):
        desired = 6 - desired  # 2 and 4 in turns
        host.faults.kill_at(number, when)
        await ask(cluster, desired)
        await cluster.died(agent)
        host.restart()

        agent = await cluster.start_agent("node1", host)

        nic = await cluster.until(
            SRIOVNetworkDevice,
            NIC,
            lambda nic, desired=desired: (
                cluster.reason(nic) == "Enabled" and len(nic.status.vf_addresses) == desired
            ),
        )
        assert list(nic.status.vf_addresses) == [str(vf) for vf in card(host).vfs]


async def test_a_refused_write_is_reported_and_the_functions_come_back(cluster, host):
    await cluster.start_agent("node1", host)
    await have(cluster, 2)
    host.faults.refuse("sriov_numvfs", 12)

    await ask(cluster, 4)

    assert "annot allocate memory" in await refused(cluster, "WriteFailed")
    assert len(card(host).vfs) == 2
