"""Enabling and disabling a GPU by its object, and what becomes of the vGPUs on it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from laneway.api import PCIDevice, SRIOVGPUDevice, VGPUDevice
from laneway.core.hardware_change import REASON
from laneway.core.pci import PciAddress
from laneway.core.sriov.vfs import vf_count
from laneway.host.scan import scan
from laneway.kube.resource import served
from support.examples import first

GPU = "node1-000008000"
ADDRESS = "0000:08:00.0"
VFS = [str(PciAddress(0, 8, n // 8, n % 8)) for n in range(4, 20)]
VGPUS = [f"node1-000008{vf[8:10]}{vf[11]}" for vf in VFS]
FIRST, SECOND = VGPUS[:2]
Q8 = "NVIDIA A2-8Q"
MANAGE = "/usr/lib/nvidia/sriov-manage"


def number_of_vfs(host: Any) -> int:
    return vf_count(next(f for f in scan(host).functions if str(f.address) == ADDRESS))


def give_to_vfio(host: Any, address: str) -> None:
    home = f"/sys/bus/pci/devices/{address}"
    host.write(f"{home}/driver_override", "vfio-pci")
    host.write(f"{home}/driver/unbind", address)
    host.write("/sys/bus/pci/drivers_probe", address)


async def switch(cluster: Any, *, on: bool) -> Any:
    return await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"enabled": on}})


async def switched(cluster: Any, *, on: bool) -> Any:
    """Desired state it, and wait until it is so."""
    await switch(cluster, on=on)
    return await cluster.answer(GPU, "Enabled" if on else "Disabled", SRIOVGPUDevice)


async def refused(cluster: Any, reason: str) -> str:
    return cluster.message(await cluster.answer(GPU, reason, SRIOVGPUDevice))


async def events(cluster: Any, name: str) -> list[tuple[str, str]]:
    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    return [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["name"] == name and item["reason"] != REASON
    ]


# ---------------------------------------------------------------------------- the whole story


@pytest.mark.realapi
async def test_from_a_bare_gpu_to_two_vgpus_and_back(cluster, bare):
    host = bare()
    await cluster.start_agent("node1", host)
    gpu = await cluster.get(SRIOVGPUDevice, GPU)
    assert not gpu.spec.enabled
    assert cluster.reason(gpu) == "Disabled"
    assert await cluster.names(VGPUDevice) == set()

    gpu = await switched(cluster, on=True)
    assert list(gpu.status.vf_addresses) == VFS
    assert list(gpu.status.vgpu_devices) == VGPUS
    for name in VGPUS:
        # Ready comes last: nothing else has to be waited for.
        vgpu = await cluster.get(VGPUDevice, name)
        assert {"NVIDIA A2-2Q", Q8, "NVIDIA A2-16C"} <= set(vgpu.status.available_types)
        assert vgpu.spec.parent_gpu_device_address == ADDRESS
        assert vgpu.metadata.labels["harvesterhci.io/parentSRIOVGPUDevice"] == GPU

    await cluster.ask(FIRST, Q8)
    await cluster.answer(FIRST, "Configured")
    sizes = {Q8, "NVIDIA A2-8A", "NVIDIA A2-8C"}
    for name in VGPUS[1:]:
        await cluster.until(VGPUDevice, name, lambda v: set(v.status.available_types) == sizes)
    await cluster.ask(SECOND, Q8)
    await cluster.answer(SECOND, "Configured")
    for name in VGPUS[2:]:
        await cluster.until(VGPUDevice, name, lambda v: not v.status.available_types)

    await switch(cluster, on=False)
    words = await refused(cluster, "VgpusEnabled")
    assert FIRST in words
    assert SECOND in words
    assert len(cluster.carried(host)) == 2
    await cluster.disable(FIRST)
    await cluster.disable(SECOND)

    gpu = await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)
    assert list(gpu.status.vf_addresses) == []
    assert list(gpu.status.vgpu_devices) == []
    assert number_of_vfs(host) == 0
    assert await cluster.names(VGPUDevice) == set()
    assert not await cluster.names(PCIDevice) & {*VGPUS}


@pytest.mark.slow
@pytest.mark.parametrize("model", first("l40s", "a100"))
async def test_each_gpu_of_a_node_is_switched_by_its_own_object(cluster, bare, model):
    host = bare(model)
    await cluster.start_agent("node1", host)
    first, *others = sorted(await cluster.names(SRIOVGPUDevice))

    await cluster.patch(SRIOVGPUDevice, first, {"spec": {"enabled": True}})

    gpu = await cluster.answer(first, "Enabled", SRIOVGPUDevice)
    vgpus = list(gpu.status.vgpu_devices)
    for name in vgpus:
        await cluster.until(VGPUDevice, name, lambda v: v and v.status.available_types)
    assert await cluster.names(VGPUDevice) == set(vgpus)
    for other in others:
        assert cluster.reason(await cluster.get(SRIOVGPUDevice, other)) == "Disabled"


# -------------------------------------------------------------------------------- while it runs


@pytest.mark.realapi
async def test_what_is_being_done_is_reported_and_a_change_of_mind_is_not_lost(cluster, gate):
    host = gate("a2", "node1")
    await cluster.start_agent("node1", host)
    host.held = "sriov-manage"
    await switch(cluster, on=False)
    await host.written(1)

    words = await refused(cluster, "InProgress")
    await switch(cluster, on=True)
    host.held = ""
    host.open.set()

    assert "disable the 16 virtual functions" in words
    gpu = await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)
    assert list(gpu.status.vf_addresses) == VFS
    assert number_of_vfs(host) == 16


@pytest.mark.slow
async def test_a_gpu_and_its_vgpus_take_turns(cluster, gate):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(FIRST, Q8)
    await cluster.answer(FIRST, "Configured")
    host.held = "/remove"
    await cluster.disable(FIRST)
    await host.written(2)
    seen = asyncio.Event()
    gpus = next(one for one in agent.publishers if one.resource.kind == "SRIOVGPUDevice")
    gpus.informer.subscribe(lambda _, after: None if after.spec.enabled else seen.set())

    await switch(cluster, on=False)

    async with asyncio.timeout(60):
        await seen.wait()
        await gpus.queue.join()
    gpu = await cluster.get(SRIOVGPUDevice, GPU)
    assert cluster.reason(gpu) == "not answered yet"
    host.held = ""
    host.open.set()
    await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)
    assert number_of_vfs(host) == 0


# --------------------------------------------------------------------------------- refusals


@pytest.mark.slow
async def test_a_vgpu_that_is_desired_but_has_no_room_keeps_its_gpu(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.ask(FIRST, "NVIDIA A2-99Q")
    await cluster.answer(FIRST, "ProfileNotOffered")

    await switch(cluster, on=False)

    assert FIRST in await refused(cluster, "VgpusEnabled")
    await cluster.client.delete(served(VGPUDevice), FIRST)
    await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)


@pytest.mark.usefixtures("impatient")
async def test_who_holds_a_function_is_named_and_the_desired_state_goes_on_without_him(
    cluster, simulated
):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    give_to_vfio(host, VFS[3])
    group = host.resolve(f"/sys/bus/pci/devices/{VFS[3]}/iommu_group").rpartition("/")[2]
    holder = host.hold(f"/dev/vfio/{group}", "qemu-system-x86")

    await switch(cluster, on=False)

    words = await refused(cluster, "DeviceInUse")
    assert VFS[3] in words
    assert "qemu-system-x86" in words
    assert number_of_vfs(host) == 16
    holder.release()
    await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)
    await cluster.quiet(agent)
    assert sorted(reason for reason, _ in await events(cluster, GPU)) == ["DeviceInUse", "Disabled"]


@pytest.mark.slow
async def test_a_program_that_fails_is_quoted(cluster, bare):
    host = bare()
    agent = await cluster.start_agent("node1", host)
    host.faults.fail_command(MANAGE, 3, "Unable to allocate MSI-X", times=100)

    await switch(cluster, on=True)

    words = await refused(cluster, "WriteFailed")
    assert "sriov-manage ended with status 3: Unable to allocate MSI-X" in words
    assert number_of_vfs(host) == 0
    before = host.faults.count
    await agent.observer.rescan()
    await cluster.quiet(agent)
    assert host.faults.count == before  # no retry storm
    assert [reason for reason, _ in await events(cluster, GPU)] == ["WriteFailed"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_a_program_that_fails_for_a_while_is_tried_again(cluster, bare):
    host = bare()
    await cluster.start_agent("node1", host)
    host.faults.fail_command(MANAGE, 1, "Unable to allocate MSI-X", times=2)

    await switched(cluster, on=True)

    assert number_of_vfs(host) == 16


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_without_its_program_a_gpu_waits_for_it(cluster, bare):
    host = bare()
    manage = host.programs.pop(MANAGE)
    await cluster.start_agent("node1", host)

    await switch(cluster, on=True)

    assert MANAGE in await refused(cluster, "ToolMissing")
    host.programs[MANAGE] = manage
    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)


@pytest.mark.slow
async def test_a_function_that_no_driver_has_is_named_until_one_has(cluster, bare):
    host = bare()
    await cluster.start_agent("node1", host)
    await switched(cluster, on=True)

    host.write(f"/sys/bus/pci/devices/{VFS[15]}/driver/unbind", VFS[15])

    words = await refused(cluster, "VfDriverMissing")
    assert VFS[15] in words
    assert VFS[14] not in words
    assert number_of_vfs(host) == 16
    host.write("/sys/bus/pci/drivers/nvidia/bind", VFS[15])
    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)


@pytest.mark.slow
async def test_the_driver_s_coming_lets_a_waiting_desired_state_go_on(cluster, bare):
    host = bare()
    await cluster.start_agent("node1", host)
    host.write(f"/sys/bus/pci/devices/{ADDRESS}/driver/unbind", ADDRESS)

    await switch(cluster, on=True)

    assert "NVIDIA's vGPU driver" in await refused(cluster, "DriverMissing")
    host.write("/sys/bus/pci/drivers/nvidia/bind", ADDRESS)
    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)


async def test_a_gpu_that_a_virtual_machine_has_whole_is_not_divided(cluster, bare):
    host = bare()
    give_to_vfio(host, ADDRESS)
    await cluster.start_agent("node1", host)

    await switch(cluster, on=True)

    assert "vfio-pci" in await refused(cluster, "DriverMissing")


async def test_an_object_that_speaks_of_another_card_moves_nothing(cluster, bare):
    host = bare()
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "SRIOVGPUDevice",
        "metadata": {"name": GPU, "labels": {"nodename": "node1"}},
        "spec": {"address": "0000:09:00.0", "nodeName": "node1", "enabled": True},
    }
    await cluster.client.create(served(SRIOVGPUDevice), body)

    await cluster.start_agent("node1", host)

    assert "0000:09:00.0" in await refused(cluster, "NameMismatch")
    assert number_of_vfs(host) == 0


# ------------------------------------------------------------------ what runs, and what is desired


@pytest.mark.slow
async def test_what_another_makes_is_left_alone_until_it_is_taken_over(cluster, bare):
    host = bare()
    await cluster.start_agent("node1", host)

    host.call([MANAGE, "-e", ADDRESS])

    words = await refused(cluster, "UnmanagedVfs")
    assert "16 virtual functions" in words
    assert number_of_vfs(host) == 16
    await switched(cluster, on=True)
    await switched(cluster, on=False)
    assert number_of_vfs(host) == 0


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_restored_object_that_says_disabled_takes_nothing_away(cluster, bare):
    host = bare()
    agent = await cluster.start_agent("node1", host)
    await cluster.backup()
    await switched(cluster, on=True)
    await cluster.stop_agent(agent)

    await cluster.restore()
    agent = await cluster.start_agent("node1", host)

    await refused(cluster, "UnmanagedVfs")
    await cluster.quiet(agent)
    assert number_of_vfs(host) == 16


@pytest.mark.slow
async def test_after_a_reboot_gpu_and_vgpus_come_back(cluster, bare):
    agent = await cluster.start_agent("node1", bare())
    await switched(cluster, on=True)
    for name in (FIRST, SECOND):
        await cluster.until(VGPUDevice, name, lambda v: v is not None)
        await cluster.ask(name, Q8)
        before = await cluster.answer(name, "Configured")
    await cluster.stop_agent(agent)

    rebooted = bare()
    await cluster.start_agent("node1", rebooted)

    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)
    for name in (FIRST, SECOND):
        after = await cluster.until(
            VGPUDevice, name, lambda v: v.status.configure_vgpu_type_name == Q8
        )
    assert after.status.uuid == before.status.uuid
    assert set(cluster.carried(rebooted).values()) == {Q8}


@pytest.mark.slow
async def test_removed_functions_come_back(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)

    host.call([MANAGE, "-d", ADDRESS])

    await cluster.until(SRIOVGPUDevice, GPU, lambda _: number_of_vfs(host) == 16)
    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)


# ----------------------------------------------------------------------------------- crashes


@pytest.mark.slow
@pytest.mark.parametrize("when", first("during", "before", "after"))
@pytest.mark.parametrize("on", first(True, False))
async def test_an_agent_that_is_killed_ends_as_one_that_was_not(cluster, bare, on, when):
    host = bare()
    agent = await cluster.start_agent("node1", host)
    if not on:
        await switched(cluster, on=True)
        await cluster.until(VGPUDevice, VGPUS[-1], lambda v: v is not None)
        await cluster.quiet(agent)
    host.faults.kill_at(1, when)
    await switch(cluster, on=on)
    await cluster.died(agent)
    host.restart()

    await cluster.start_agent("node1", host)

    gpu = await cluster.answer(GPU, "Enabled" if on else "Disabled", SRIOVGPUDevice)
    assert list(gpu.status.vgpu_devices) == (VGPUS if on else [])
    assert number_of_vfs(host) == len(gpu.status.vf_addresses)


@pytest.mark.slow
async def test_a_desired_state_that_is_taken_back_while_the_agent_is_dead_is_not_lost(
    cluster, bare
):
    host = bare()
    agent = await cluster.start_agent("node1", host)
    host.faults.kill_at(1, "after")
    await switch(cluster, on=True)
    await cluster.died(agent)
    host.restart()
    await switch(cluster, on=False)

    await cluster.start_agent("node1", host)

    await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)
    assert number_of_vfs(host) == 0


# ----------------------------------------------------------------------------- what it tells


@pytest.mark.realapi
async def test_events_and_metrics_tell_who_did_what_and_how_long_it_took(cluster, bare):
    agent = await cluster.start_agent("node1", bare())
    await switched(cluster, on=True)
    await cluster.quiet(agent)

    ((reason, message),) = await events(cluster, GPU)

    assert reason == "Enabled"
    assert "by laneway agent in " in message
    assert "enable the 16 virtual functions of GPU" in message
    metrics = cluster.families.registry.get_sample_value
    labels = {"node": "node1", "operation": "enable-gpu", "result": "done"}
    assert metrics("laneway_operation_seconds_count", labels) == 1
    assert metrics("laneway_gpus", {"node": "node1", "state": "enabled"}) == 1
    free = {"node": "node1", "kind": "gpu", "state": "free"}
    assert metrics("laneway_virtual_functions", free) == 16


@pytest.mark.slow
async def test_at_rest_nothing_is_asked_or_written(cluster, simulated, requests):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(FIRST, Q8)
    await cluster.answer(FIRST, "Configured")
    await switch(cluster, on=False)
    await refused(cluster, "VgpusEnabled")
    await cluster.quiet(agent)
    requests.clear()
    before = host.faults.count

    for _ in range(3):
        await agent.observer.rescan()
        await cluster.quiet(agent)

    assert requests == []
    assert host.faults.count == before
