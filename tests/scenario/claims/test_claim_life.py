"""What happens to a claim's device, its users, its node and its agent while the claim stands."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan
from laneway.host.plans.execute import execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, UnreachableError
from laneway.kube.resource import served
from support.examples import first

GPU, AUDIO, NIC = "0000:08:00.0", "0000:08:00.1", "0000:17:00.1"
OTHER = "0000:98:00.0"


def sysfs(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}"


def group(host: Any, address: str) -> str:
    function = scan(host).function(PciAddress.parse(address))
    assert function is not None
    return f"/dev/vfio/{function.iommu_group}"


async def by_hand(agent: Any, address: str) -> None:
    """An administrator gives a device to vfio-pci with the command on the node."""
    function, hardware = PciAddress.parse(address), agent.hardware
    plan = binding.bind(function, await observe(hardware, "node1", (function,)))
    assert isinstance(plan, Plan)
    await execute(hardware, plan, actor="kim", reason="a test")


async def test_a_device_in_use_is_released_when_its_user_ends(
    cluster: Any, claims: Any, simulated: Any, driver: Any, watchful: None
) -> None:
    host = simulated("plain", "node1")
    before = driver(host, NIC)
    await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    machine = host.hold(group(host, NIC))
    await claims.delete(NIC)
    claim = await claims.answer(NIC, "DeviceInUse")
    assert "qemu-system-x86" in cluster.message(claim)
    assert claims.said(claim, "Bound")[0] == "True"
    assert driver(host, NIC) == "vfio-pci"
    machine.release()
    await claims.gone(NIC)
    assert driver(host, NIC) == before


@pytest.mark.parametrize("owned", first(False, True))
async def test_a_claim_of_a_device_that_was_pulled_out_stays_and_can_go(
    cluster: Any, claims: Any, simulated: Any, owned: bool
) -> None:
    host = simulated("plain", "node1")
    agent = await cluster.start_agent("node1", host)
    await claims.make(NIC, owned=owned)
    await claims.bound(NIC)
    host.unplug(sysfs(NIC))
    claim = await claims.answer(NIC, "DeviceNotFound")
    assert claims.said(claim, "Bound")[0] == "False"
    # The device's object stays with the claim: a claim that it owns would go with it.
    device = await cluster.answer(claims.name(NIC), "DeviceNotFound", PCIDevice)
    assert device.status.claimable is False
    await claims.delete(NIC)
    await claims.gone(NIC)
    await cluster.until(PCIDevice, claims.name(NIC), lambda one: one is None)
    assert agent.hardware.state.originals == {}


@pytest.mark.slow
async def test_a_group_member_of_a_device_that_was_pulled_out_goes_back(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("workstation", "node1")
    before = driver(host, AUDIO)
    await cluster.start_agent("node1", host)
    await claims.make(GPU)
    await claims.bound(GPU)
    host.unplug(sysfs(GPU))
    await claims.answer(GPU, "DeviceNotFound")
    await claims.delete(GPU)
    await claims.gone(GPU)
    assert driver(host, AUDIO) == before


@pytest.mark.slow
async def test_a_group_member_with_a_claim_of_its_own_stays_when_the_other_was_pulled_out(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("workstation", "node1")
    before = driver(host, AUDIO)
    agent = await cluster.start_agent("node1", host)
    for one in (GPU, AUDIO):
        await claims.make(one)
        await claims.bound(one)
    host.unplug(sysfs(GPU))
    await claims.answer(GPU, "DeviceNotFound")
    await cluster.quiet(agent)
    count = host.faults.count
    await claims.delete(GPU)
    await claims.gone(GPU)
    await cluster.quiet(agent)
    assert host.faults.count == count
    assert driver(host, AUDIO) == "vfio-pci"
    await claims.delete(AUDIO)
    await claims.gone(AUDIO)
    assert driver(host, AUDIO) == before


@pytest.mark.slow
@pytest.mark.parametrize("claimed", first(True, False), ids=["claimed", "by hand"])
async def test_whose_group_has_the_number_after_a_boot_keeps_his_device(
    cluster: Any, claims: Any, simulated: Any, driver: Any, claimed: bool
) -> None:
    host = simulated("plain", "node1")
    number = group(host, NIC)
    agent = await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    await cluster.stop_agent(agent)
    rebooted = simulated("plain", "node1")
    rebooted.unplug(sysfs(NIC))
    rebooted.write(f"{sysfs(OTHER)}/remove", "1")
    rebooted.write("/sys/bus/pci/rescan", "1")
    assert group(rebooted, OTHER) == number
    agent = await cluster.start_agent("node1", rebooted, boot="another")
    await claims.answer(NIC, "DeviceNotFound")
    if claimed:
        await claims.make(OTHER)
        await claims.bound(OTHER)
    else:
        await by_hand(agent, OTHER)
    await cluster.quiet(agent)
    count = rebooted.faults.count
    await claims.delete(NIC)
    await claims.gone(NIC)
    await cluster.quiet(agent)
    assert rebooted.faults.count == count
    assert driver(rebooted, OTHER) == "vfio-pci"


@pytest.mark.slow
@pytest.mark.parametrize("owned", first(False, True))
async def test_a_device_that_comes_back_is_taken_again(
    cluster: Any, claims: Any, simulated: Any, driver: Any, owned: bool
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    await claims.make(NIC, owned=owned)
    await claims.bound(NIC)
    pulled = host.unplug(sysfs(NIC))
    await claims.answer(NIC, "DeviceNotFound")
    host.plug(pulled)
    await claims.bound(NIC)
    assert driver(host, NIC) == "vfio-pci"


async def test_after_a_boot_devices_are_taken_again_with_their_originals_known(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("workstation", "node1")
    agent = await cluster.start_agent("node1", host)
    await claims.make(GPU)
    before = (await claims.bound(GPU)).status
    await cluster.stop_agent(agent)
    rebooted = simulated("workstation", "node1")
    agent = await cluster.start_agent("node1", rebooted, boot="another")
    await agent.restored.wait()
    assert driver(rebooted, GPU) == driver(rebooted, AUDIO) == "vfio-pci"
    after = (await claims.bound(GPU)).status
    assert after.kernel_driver_to_unbind == before.kernel_driver_to_unbind != "vfio-pci"


async def test_a_restarted_agent_finds_nothing_to_do(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    host = simulated("workstation", "node1")
    agent = await cluster.start_agent("node1", host)
    await claims.make(GPU)
    await claims.bound(GPU)
    await cluster.quiet(agent)
    await cluster.stop_agent(agent)
    host.hold(group(host, GPU))
    before, count = await cluster.get(PCIDeviceClaim, claims.name(GPU)), host.faults.count
    agent = await cluster.start_agent("node1", host)
    await agent.restored.wait()
    await cluster.quiet(agent)
    after = await cluster.get(PCIDeviceClaim, claims.name(GPU))
    assert after.metadata.resource_version == before.metadata.resource_version
    assert host.faults.count == count


async def test_a_refused_write_is_reported_undone_and_not_repeated_at_once(
    cluster: Any, claims: Any, simulated: Any, driver: Any, impatient: None
) -> None:
    host = simulated("workstation", "node1")
    before = {one: driver(host, one) for one in (GPU, AUDIO)}
    agent = await cluster.start_agent("node1", host)
    host.faults.fail_probe(1)
    await claims.make(GPU)
    claim = await claims.answer(GPU, "WriteFailed")
    assert claims.said(claim, "Bound") == ("False", "WriteFailed")
    assert {one: driver(host, one) for one in (GPU, AUDIO)} == before
    count = host.faults.count
    await cluster.quiet(agent)
    assert host.faults.count == count
    await claims.delete(GPU)
    await claims.gone(GPU)


@pytest.mark.slow
@pytest.mark.parametrize("when", first("during", "before", "after"))
async def test_an_agent_that_is_killed_at_any_write_ends_as_one_that_was_not(
    cluster: Any, claims: Any, simulated: Any, driver: Any, when: Any
) -> None:
    host = simulated("workstation", "node1")
    before = {one: driver(host, one) for one in (GPU, AUDIO)}

    async def claimed() -> None:
        await claims.bound(GPU)
        assert driver(host, GPU) == driver(host, AUDIO) == "vfio-pci"

    async def released() -> None:
        await claims.gone(GPU)
        assert {one: driver(host, one) for one in (GPU, AUDIO)} == before

    ways = ((claims.make, claimed), (claims.delete, released))
    agent = await cluster.start_agent("node1", host)
    totals = [0, 0]
    for _ in range(2):  # The first time the consoles leave the GPU, and never come back.
        for index, (desired, ended) in enumerate(ways):
            start = host.faults.count
            await desired(GPU)
            await ended()
            totals[index] = host.faults.count - start
    assert min(totals) >= 4
    for number in range(1, max(totals) + 1):
        for (desired, ended), total in zip(ways, totals, strict=True):
            if number <= total:
                host.faults.kill_at(number, when)
                await desired(GPU)
                await cluster.died(agent)
                host.restart()
                agent = await cluster.start_agent("node1", host)
            else:
                await desired(GPU)
            await ended()
    assert agent.hardware.state.originals == {}


@pytest.fixture(params=[False, True], ids=["refused", "answer lost"])
def lossy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every second change of a claim fails, or is made and not answered. Gives the paths."""
    real, seen = Client.call, list[str]()

    async def flaky(self: Client, method: str, path: str, *args: Any) -> bytes:
        if method == "PATCH" and "pcideviceclaims" in path:
            seen.append(path)
            if len(seen) % 2:
                if not request.param:
                    raise ApiError(500, "InternalError", "a fault")
                await real(self, method, path, *args)
                raise UnreachableError("the answer was lost")
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", flaky)
    return seen


@pytest.mark.slow
async def test_lost_requests_change_nothing_about_the_end(
    cluster: Any, claims: Any, simulated: Any, driver: Any, lossy: list[str]
) -> None:
    host = simulated("plain", "node1")
    before = driver(host, NIC)
    await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    assert driver(host, NIC) == "vfio-pci"
    await claims.delete(NIC)
    await claims.gone(NIC)
    assert driver(host, NIC) == before
    assert len(lossy) >= 6


async def free(cluster: Any, name: str) -> None:
    """A user deletes a claim without waiting for its node."""
    resource = served(PCIDeviceClaim)
    await cluster.client.patch(resource, name, {"metadata": {"finalizers": None}})
    await cluster.client.delete(resource, name)


async def test_what_was_taken_for_a_claim_that_is_gone_by_force_goes_back(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("workstation", "node1")
    before = {one: driver(host, one) for one in (GPU, AUDIO)}
    agent = await cluster.start_agent("node1", host)
    await claims.make(GPU)
    await claims.bound(GPU)
    await cluster.stop_agent(agent)
    await free(cluster, claims.name(GPU))
    agent = await cluster.start_agent("node1", host)
    for device, name in before.items():
        await cluster.until(
            PCIDevice,
            claims.name(device),
            lambda one, name=name: one.status.kernel_driver_in_use == name,
        )
    assert {one: driver(host, one) for one in (GPU, AUDIO)} == before


async def test_what_is_in_use_or_taken_by_hand_is_left_alone(
    cluster: Any, claims: Any, simulated: Any, driver: Any, impatient: None
) -> None:
    host = simulated("plain", "node1")
    his = "0000:97:00.0" if driver(host, "0000:97:00.0") != "gone" else "0000:98:00.1"
    for path, text in (
        (f"{sysfs(his)}/driver/unbind", his),
        (f"{sysfs(his)}/driver_override", "vfio-pci"),
        ("/sys/bus/pci/drivers_probe", his),
    ):
        host.write(path, text)
    before = driver(host, NIC)
    agent = await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    await cluster.stop_agent(agent)
    machine = host.hold(group(host, NIC))
    await free(cluster, claims.name(NIC))
    agent = await cluster.start_agent("node1", host)
    await cluster.quiet(agent)
    assert driver(host, NIC) == driver(host, his) == "vfio-pci"
    machine.release()
    await cluster.until(
        PCIDevice, claims.name(NIC), lambda one: one.status.kernel_driver_in_use == before
    )
    assert driver(host, his) == "vfio-pci"
