"""What forbids a GPU a mode, or to be shared at all, and how it goes on afterwards."""

from __future__ import annotations

import pytest

from laneway.api import (
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    find_condition,
)
from laneway.controllers import written
from laneway.core.gpu.modes import Mode
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.resource import served
from support.gpu_modes import (
    A2,
    A100,
    MANAGE,
    SMI,
    claim,
    desired,
    found,
    in_mode,
    named,
    refused,
)

# --------------------------------------------------------------------------------- refusals


@pytest.mark.slow
async def test_while_a_vgpu_is_enabled_the_mode_stays_and_then_follows(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    vgpu = (await in_mode(cluster, named(A2), "SameSize")).status.vgpu_devices[0]
    await cluster.ask(vgpu, "NVIDIA A2-4Q")
    await cluster.answer(vgpu, "Configured")

    await desired(cluster, named(A2), "MixedSize")

    reported = await refused(cluster, named(A2), "VgpusEnabled")
    assert vgpu in reported
    assert "in use" not in reported  # once is enough, and in the words of the one who asked
    assert await found(host, A2) is Mode.SAME_SIZE
    assert set(cluster.carried(host).values()) == {"NVIDIA A2-4Q"}
    await cluster.disable(vgpu)
    await in_mode(cluster, named(A2), "MixedSize")


@pytest.mark.slow
@pytest.mark.realapi
async def test_desired_states_that_exclude_each_other_change_nothing(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)

    await desired(cluster, named(A2), "Passthrough", enabled=True)

    assert "Passthrough" in await refused(cluster, named(A2), "ModeConflict")
    assert await found(host, A2) is Mode.SAME_SIZE
    await cluster.patch(SRIOVGPUDevice, named(A2), {"spec": {"enabled": False}})
    await in_mode(cluster, named(A2), "Passthrough")


@pytest.mark.parametrize("mode", ["MIG", "MIGBacked"])
async def test_a_card_without_mig_says_so(cluster, bare, mode):
    host = bare("a2")
    await cluster.start_agent("node1", host)
    await desired(cluster, named(A2), mode)
    await refused(cluster, named(A2), "MigUnsupported")
    assert await found(host, A2) is Mode.PASSTHROUGH


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_the_user_of_the_card_is_named_and_the_mode_follows_it(cluster, bare):
    host = bare("a100")
    await cluster.start_agent("node1", host)
    holder = host.hold("/dev/nvidia0", "nv-hostengine")

    await desired(cluster, named(A100), "MIG")

    assert "nv-hostengine" in await refused(cluster, named(A100), "DeviceInUse")
    assert await found(host, A100) is Mode.PASSTHROUGH
    holder.release()
    await in_mode(cluster, named(A100), "MIG")


@pytest.mark.slow
async def test_a_command_that_fails_on_the_way_is_quoted_and_all_is_taken_back(cluster, bare):
    host = bare("a2")
    await cluster.start_agent("node1", host)
    host.faults.fail_command(MANAGE, 3, "Unable to allocate MSI-X", times=100)

    await desired(cluster, named(A2), "MixedSize")

    words = await refused(cluster, named(A2), "WriteFailed")
    assert "sriov-manage ended with status 3: Unable to allocate MSI-X" in words
    assert await found(host, A2) is Mode.PASSTHROUGH


@pytest.mark.slow
async def test_a_gpu_that_does_not_answer_is_not_put_into_a_mode(cluster, bare):
    host = bare("a2")
    host.faults.fail_command(SMI, 9, "NVIDIA-SMI has failed", times=1000)
    agent = await cluster.start_agent("node1", host)

    await desired(cluster, named(A2), "MixedSize")

    assert "NVIDIA-SMI has failed" in await refused(cluster, named(A2), "GpuUnreadable")
    assert (await cluster.get(SRIOVGPUDevice, named(A2))).status.mode == ""
    host.faults.clear()
    await agent.observer.rescan(PciAddress.parse(A2))
    await in_mode(cluster, named(A2), "MixedSize")


@pytest.mark.slow
async def test_a_card_whose_sr_iov_is_switched_off_says_so_and_keeps_its_desired_state(
    cluster, bare
):
    agent = await cluster.start_agent("node1", bare("a2"))
    await desired(cluster, named(A2), "SameSize")
    await in_mode(cluster, named(A2), "SameSize")
    await cluster.stop_agent(agent)
    without = bare("a2")
    home = without.resolve(f"/sys/bus/pci/devices/{A2}")
    for name in ("sriov_totalvfs", "sriov_numvfs", "sriov_vf_device"):
        without.tree.discard(f"{home}/{name}")

    agent = await cluster.start_agent("node1", without)

    await refused(cluster, named(A2), "NoSriov")
    pci = await cluster.get(PCIDevice, named(A2))
    shareable = find_condition(pci.status.conditions, "Shareable")
    assert (shareable.status, shareable.reason) == ("False", "SriovDisabled")
    await cluster.stop_agent(agent)
    await cluster.start_agent("node1", bare("a2"))
    await in_mode(cluster, named(A2), "SameSize")
    pci = await cluster.get(PCIDevice, named(A2))
    assert find_condition(pci.status.conditions, "Shareable").status == "True"


# ------------------------------------------------------------------------------ claimed as a whole


@pytest.mark.realapi
async def test_a_gpu_that_is_claimed_whole_is_not_offered_until_the_claim_goes(cluster, bare):
    await cluster.client.create(served(PCIDeviceClaim), claim(A2))
    agent = await cluster.start_agent("node1", bare("a2"))
    await cluster.quiet(agent)
    assert await cluster.names(SRIOVGPUDevice) == set()

    await cluster.client.delete(served(PCIDeviceClaim), named(A2))

    await cluster.answer(named(A2), "Disabled", SRIOVGPUDevice)


async def test_a_gpu_that_was_offered_says_who_has_claimed_it(cluster, bare):
    host = bare("a2")
    await cluster.start_agent("node1", host)
    await cluster.answer(named(A2), "Disabled", SRIOVGPUDevice)
    await cluster.client.create(served(PCIDeviceClaim), claim(A2))
    await cluster.answer(named(A2), "GpuClaimed", SRIOVGPUDevice)

    await desired(cluster, named(A2), "SameSize")

    words = await refused(cluster, named(A2), "GpuClaimed")
    assert named(A2) in words
    assert "alice" in words
    assert not any(one.vfs for one in scan(host).functions)
    await cluster.client.delete(served(PCIDeviceClaim), named(A2))
    await in_mode(cluster, named(A2), "SameSize")


async def test_a_gpu_that_was_claimed_in_vain_is_looked_at_once_the_claim_goes(
    cluster, bare, monkeypatch
):
    monkeypatch.setattr(written, "PATIENCE_SECONDS", 900.0)  # nothing else has it looked at
    host = bare("a2")
    agent = await cluster.start_agent("node1", host)
    await cluster.answer(named(A2), "Disabled", SRIOVGPUDevice)
    holder = host.hold("/dev/nvidia0", "python")  # so that no hardware changes
    await cluster.client.create(served(PCIDeviceClaim), claim(A2))
    await cluster.answer(named(A2), "DeviceInUse", PCIDeviceClaim)
    await desired(cluster, named(A2), "SameSize", enabled=True)
    await refused(cluster, named(A2), "GpuClaimed")
    await cluster.quiet(agent)

    await cluster.client.delete(served(PCIDeviceClaim), named(A2))

    await refused(cluster, named(A2), "DeviceInUse")
    holder.release()


async def test_a_gpu_that_is_shared_stays_so_and_its_pci_device_says_it(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await in_mode(cluster, named(A2), "SameSize")

    await cluster.client.create(served(PCIDeviceClaim), claim(A2))
    await cluster.quiet(agent)

    gpu = await cluster.get(SRIOVGPUDevice, named(A2))
    assert cluster.reason(gpu) == "Enabled"
    claimable = find_condition(
        (await cluster.get(PCIDevice, named(A2))).status.conditions, "Claimable"
    )
    assert (claimable.status, claimable.reason) == ("False", "VirtualFunctionsEnabled")
