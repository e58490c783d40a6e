"""What cannot be claimed is refused in words, without a write to hardware, and can be deleted."""

from __future__ import annotations

import errno
from typing import Any, NamedTuple

import msgspec
import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.core import keys
from laneway.core.kernel.uevent import OVERFLOW

NIC, DISK, BRIDGE, GPU = "0000:17:00.1", "0000:08:00.0", "0000:00:1c.0", "0000:08:00.0"
SKIP = {keys.ANNOTATION_SKIP_BINDING: "true"}


class Case(NamedTuple):
    """A claim that is refused."""

    address: str
    more: dict[str, Any]
    reason: str
    words: str


@pytest.mark.parametrize(
    "case",
    [
        Case("0000:04:00.0", {}, "DeviceNeeded", "critical to the node"),
        Case(BRIDGE, {}, "DeviceUnusable", "bridge"),
        Case("0000:77:00.0", {}, "DeviceNotFound", "Device 0000:77:00.0 does not exist"),
        Case(
            NIC, {"annotations": SKIP}, "DriverNotVfio", "keeps Laneway from binding it to vfio-pci"
        ),
        Case(NIC, {"name": "something-else"}, "NameMismatch", "node1-000017001"),
        Case("", {"name": "no-address"}, "NameMismatch", "not a PCI address"),
    ],
    ids=lambda case: case.reason,
)
async def test_what_cannot_be_claimed_is_refused(
    cluster: Any, claims: Any, simulated: Any, case: Case
) -> None:
    address, more, reason, words = case
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    count = host.faults.count
    name = more.get("name", "") or claims.name(address)
    await claims.make(address, **more)
    claim = await claims.answer(address, reason, name)
    assert words in cluster.message(claim)
    assert not claim.status.passthrough_enabled
    assert not claim.metadata.finalizers
    await claims.delete(address, name)
    await claims.gone(address, name)
    assert host.faults.count == count


async def test_a_refusal_is_one_event_however_often_it_is_looked_at(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    agent = await cluster.start_agent("node1", simulated("plain", "node1"))
    await claims.make("0000:04:00.0")
    await claims.answer("0000:04:00.0", "DeviceNeeded")
    for _ in range(3):
        await cluster.quiet(agent)
    items = msgspec.json.decode(await cluster.client.raw("/api/v1/events"))["items"]
    about = [one for one in items if one["involvedObject"]["name"] == claims.name("0000:04:00.0")]
    assert [(one["reason"], one["count"]) for one in about] == [("DeviceNeeded", 1)]


async def test_a_gpu_with_virtual_functions_is_not_given_away_as_a_whole(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await claims.make(GPU)
    claim = await claims.answer(GPU, "DeviceUnusable")
    assert "its virtual functions are enabled" in cluster.message(claim)
    device = await cluster.get(PCIDevice, claims.name(GPU))
    assert not device.status.claimable


async def test_a_second_claim_of_a_device_has_no_effect(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    await claims.make(NIC, name="another", finalizers=[keys.FINALIZER_PCI_CLAIM])
    await claims.answer(NIC, "NameMismatch", "another")
    await claims.make(NIC)
    await claims.bound(NIC)
    claim = await claims.answer(NIC, "DuplicateClaim", "another")
    assert claims.name(NIC) in cluster.message(claim)
    await claims.delete(NIC, "another")
    await claims.gone(NIC, "another")
    assert driver(host, NIC) == "vfio-pci"


async def test_a_name_that_is_no_resource_is_reported(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    await cluster.start_agent("node1", simulated("plain", "node1"))
    odd = {keys.ANNOTATION_RESOURCE_NAME: "../../etc"}
    await claims.make(NIC, annotations=odd)
    claim = await claims.answer(NIC, "ResourceNameInvalid")
    assert claims.said(claim, "Bound")[0] == "True"
    assert not claim.status.passthrough_enabled


@pytest.mark.slow
async def test_another_device_at_the_address_is_never_taken(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("plain", "node1")
    agent = await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    await cluster.stop_agent(agent)
    other = {"status": {"vendorId": "10de", "deviceId": "25b6"}}
    await cluster.patch(PCIDeviceClaim, claims.name(NIC), other, "status")
    rebooted = simulated("plain", "node1")
    before = driver(rebooted, NIC)
    await cluster.start_agent("node1", rebooted, boot="another")
    claim = await claims.answer(NIC, "DeviceReplaced")
    assert "10de:25b6" in cluster.message(claim)
    assert driver(rebooted, NIC) == before
    await claims.delete(NIC)
    await claims.gone(NIC)
    assert driver(rebooted, NIC) == before


async def test_what_is_refused_goes_on_when_the_reason_is_gone(
    cluster: Any, claims: Any, simulated: Any, watchful: None
) -> None:
    host = simulated("workstation", "node1")
    await cluster.start_agent("node1", host)
    music = host.hold("/dev/snd/controlC0", "pipewire")
    await claims.make(GPU)
    claim = await claims.answer(GPU, "DeviceInUse")
    assert "pipewire" in cluster.message(claim)
    music.release()
    await claims.bound(GPU)


@pytest.mark.slow
async def test_a_claim_of_an_uplink_is_not_carried_out_by_a_boot_that_has_no_bond_yet(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("plain", "node1")
    for change in (
        lambda net: net.add("vlan1-bo", "bond"),
        lambda net: net.stack("ens1f1", "vlan1-bo"),
    ):
        host.network(change)
    agent = await cluster.start_agent("node1", host)
    device = await cluster.get(PCIDevice, claims.name(NIC))
    assert device.status.claimable is False
    assert "ens1f1 is part of bond vlan1-bo" in device.status.critical[0]
    await claims.make(NIC)
    claim = await claims.answer(NIC, "DeviceNeeded")
    assert "ens1f1 is part of bond vlan1-bo" in cluster.message(claim)
    await cluster.stop_agent(agent)

    rebooted = simulated("plain", "node1")
    native = driver(rebooted, NIC)
    await cluster.start_agent("node1", rebooted, boot="another")
    claim = await cluster.until(
        PCIDeviceClaim,
        claims.name(NIC),
        lambda claim: "although the device is free now" in cluster.message(claim),
    )
    assert cluster.reason(claim) == "DeviceNeeded"
    assert driver(rebooted, NIC) == native
    await claims.delete(NIC)
    await claims.gone(NIC)
    await claims.make(NIC)
    await claims.bound(NIC)


@pytest.mark.slow
async def test_a_bound_claim_of_a_card_with_an_address_after_a_boot_is_bound_when_that_goes(
    cluster: Any, claims: Any, simulated: Any, driver: Any, impatient: None
) -> None:
    agent = await cluster.start_agent("node1", simulated("plain", "node1"))
    await claims.make(NIC)
    await claims.bound(NIC)
    await cluster.stop_agent(agent)

    rebooted = simulated("plain", "node1")
    rebooted.network(lambda net: net.give("ens1f1", "10.9.0.5/24"))
    native = driver(rebooted, NIC)
    agent = await cluster.start_agent("node1", rebooted, boot="another")
    claim = await claims.answer(NIC, "DeviceNeeded")
    assert "ens1f1 has the address 10.9.0.5/24" in cluster.message(claim)
    assert "ip address flush dev NAME" in cluster.message(claim)
    assert "is bound again when the node no longer uses the device" in cluster.message(claim)
    assert driver(rebooted, NIC) == native
    await cluster.stop_agent(agent)  # which forgets all but what the claim says

    await cluster.start_agent("node1", rebooted)
    rebooted.network(lambda net: net.flush("ens1f1"))
    await claims.bound(NIC)


@pytest.mark.slow
async def test_a_claim_is_judged_by_how_the_network_is_now(
    cluster: Any, claims: Any, simulated: Any, driver: Any, impatient: None
) -> None:
    host = simulated("plain", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.get(PCIDevice, claims.name(NIC))
    native = driver(host, NIC)
    host.network(lambda net: net.give("ens1f1", "10.9.0.5/24"))  # of which no event tells
    await claims.make(NIC)
    await claims.answer(NIC, "DeviceNeeded")
    device = await cluster.until(
        PCIDevice, claims.name(NIC), lambda device: bool(device.status.critical)
    )
    assert device.status.claimable is False
    claim = await cluster.get(PCIDeviceClaim, claims.name(NIC))
    assert "ens1f1 has the address 10.9.0.5/24" in cluster.message(claim)
    assert driver(host, NIC) == native

    await cluster.stop_agent(agent)
    await cluster.start_agent("node1", host)
    host.network(lambda net: net.flush("ens1f1"))
    await claims.delete(NIC)
    await claims.gone(NIC)
    await claims.make(NIC)
    await claims.bound(NIC)


class Unreadable:
    """A simulated host on which an attribute cannot be read while `failing` is true."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self.failing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def read(self, path: str) -> bytes:
        if self.failing and path.endswith(f"{NIC}/numa_node"):
            raise OSError(errno.EIO, "Input/output error", path)
        return self._host.read(path)  # type: ignore[no-any-return] - whatever a host reads


@pytest.mark.slow
async def test_what_cannot_be_read_is_left_alone_and_says_so_until_it_can(
    cluster: Any, claims: Any, simulated: Any, driver: Any, impatient: None
) -> None:
    host = Unreadable(simulated("plain", "node1"))
    before = driver(host, NIC)
    host.failing = True
    await cluster.start_agent("node1", host)
    await claims.make(NIC)
    claim = await claims.answer(NIC, "ReadFailed")
    assert cluster.message(claim).startswith(
        "Not changed, because the device cannot be read: numa_node: cannot be read"
    )
    assert driver(host, NIC) == before
    host.failing = False  # of which no event tells
    await claims.bound(NIC)

    host.failing = True
    host._emit(OVERFLOW)  # lost events make the agent read everything
    await cluster.answer(claims.name(NIC), "ReadFailed", PCIDevice)
    await claims.delete(NIC)
    claim = await claims.answer(NIC, "ReadFailed")
    assert claims.said(claim, "Bound")[0] == "True"
    assert driver(host, NIC) == "vfio-pci"
    host.failing = False
    await claims.gone(NIC)
    assert driver(host, NIC) == before


@pytest.mark.slow
async def test_a_refused_claim_says_and_takes_nothing_of_the_mediated_device_of_its_name(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    function = "0000:08:00.4"
    await cluster.ask(claims.name(function), "NVIDIA A2-4Q")
    vgpu = await cluster.answer(claims.name(function), "Configured", VGPUDevice)
    await claims.make(function)
    claim = await claims.answer(function, "DeviceUnusable")
    assert claims.said(claim, "Permitted") == claims.said(claim, "Advertised")
    assert claims.said(claim, "Advertised") == ("False", "NotReady")
    assert not claim.status.resource_name
    await claims.delete(function)
    await claims.gone(function)
    after = await cluster.get(VGPUDevice, claims.name(function))
    assert after.status.conditions == vgpu.status.conditions
