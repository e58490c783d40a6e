"""Desired states for vGPUs among foreign hands, crashes, changes of mind and held devices."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from laneway.api import VGPUDevice
from laneway.core.phrases import short_name
from laneway.host.scan import scan
from laneway.kube.resource import served

VGPU = "node1-000008004"
SIBLING = "node1-000008005"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
FOREIGN = "d3b5a1d8-9d8f-4f0c-8a52-111111111111"


def make_by_hand(host: Any, address: str, profile: str, uuid: str = FOREIGN) -> None:
    types = next(v for v in scan(host).vgpus if str(v.address) == address).creatable
    kind = next(kind.id for kind in types if kind.name == profile)
    host.write(f"/sys/bus/pci/devices/{address}/mdev_supported_types/{kind}/create", uuid)


@pytest.mark.slow
async def test_another_vgpu_in_the_place_of_ours_is_not_replaced(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    ours = await cluster.answer(VGPU, "Configured")

    host.write(f"/sys/bus/mdev/devices/{ours.status.uuid}/remove", "1")
    make_by_hand(host, "0000:08:00.4", Q8)

    vgpu = await cluster.answer(VGPU, "UnmanagedProfile")
    assert "vGPU A2-8Q, which was not" in cluster.message(vgpu)
    assert vgpu.status.uuid == FOREIGN
    assert cluster.carried(host) == {"0000:08:00.4": Q8}

    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}


@pytest.mark.slow
async def test_naming_a_profile_of_a_disabled_vgpu_removes_nothing(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    make_by_hand(host, "0000:08:00.4", Q4)
    await cluster.answer(VGPU, "UnmanagedVgpu")

    changed = await cluster.patch(VGPUDevice, VGPU, {"spec": {"vGPUTypeName": Q8}})

    assert cluster.reason(changed) == "not answered yet"
    await cluster.answer(VGPU, "UnmanagedVgpu")
    assert cluster.carried(host) == {"0000:08:00.4": Q4}


@pytest.mark.slow
async def test_a_database_from_an_older_backup_tears_nothing_down(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.backup()
    await cluster.ask(SIBLING, Q4)
    await cluster.answer(SIBLING, "Configured")
    await cluster.ask(VGPU, "NVIDIA A2-4C")
    await cluster.until(
        VGPUDevice, VGPU, lambda v: v.status.configure_vgpu_type_name == "NVIDIA A2-4C"
    )
    running = cluster.carried(host)
    await cluster.stop_agent(agent)

    await cluster.restore()
    await cluster.start_agent("node1", host)

    await cluster.answer(VGPU, "UnmanagedProfile")
    await cluster.answer(SIBLING, "UnmanagedVgpu")
    assert cluster.carried(host) == running


@pytest.mark.realapi
async def test_objects_that_are_lost_are_made_again_as_the_hardware_is(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.stop_agent(agent)
    for name in await cluster.names(VGPUDevice):
        await cluster.client.delete(served(VGPUDevice), name)

    await cluster.start_agent("node1", host)

    vgpu = await cluster.get(VGPUDevice, VGPU)
    assert vgpu.spec.enabled
    assert vgpu.spec.vgpu_type_name == Q4
    assert cluster.reason(vgpu) == "Configured"
    assert cluster.carried(host) == {"0000:08:00.4": Q4}


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_desired_state_that_changes_during_a_write_is_not_lost(cluster, gate):
    host = gate("a2", "node1")
    await cluster.start_agent("node1", host)
    host.held = "create"
    await cluster.ask(VGPU, Q4)
    await host.written(1)
    working = await cluster.get(VGPUDevice, VGPU)

    await cluster.disable(VGPU)
    host.open.set()

    assert cluster.reason(working) == "InProgress"
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}


@pytest.mark.slow
async def test_a_desired_state_that_changes_while_the_agent_is_dead_is_not_lost(cluster, gate):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    host.held = "create"
    await cluster.ask(VGPU, Q4)
    await host.written(1)
    await cluster.stop_agent(agent)  # the kernel has the write, the API not its outcome
    host.open.set()
    await cluster.disable(VGPU)

    await cluster.start_agent("node1", host)

    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}


@pytest.mark.slow
async def test_a_foreign_vgpu_in_the_way_of_an_unanswered_desired_state_is_not_taken_away(
    cluster, gate
):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    host.held = "create"
    await cluster.ask(VGPU, Q4)
    await host.written(1)
    await cluster.stop_agent(agent)  # the write comes too late: another was quicker
    make_by_hand(host.host, "0000:08:00.4", Q4)
    host.open.set()
    await cluster.ask(VGPU, Q8)

    await cluster.start_agent("node1", host)

    await cluster.answer(VGPU, "UnmanagedProfile")
    assert cluster.carried(host) == {"0000:08:00.4": Q4}


@pytest.mark.slow
async def test_a_foreign_vgpu_that_comes_in_the_way_of_an_attempt_is_not_taken_away(cluster, gate):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    host.held = "create"
    await cluster.ask(VGPU, Q4)
    await host.written(1)
    make_by_hand(host.host, "0000:08:00.4", Q8)
    host.held = ""
    host.open.set()

    await cluster.answer(VGPU, "UnmanagedProfile")
    await agent.observer.rescan()
    await cluster.quiet(agent)
    assert cluster.carried(host) == {"0000:08:00.4": Q8}


@pytest.mark.slow
async def test_the_profile_of_the_only_vendor_vgpu_can_get_another_size(cluster, simulated):
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    name = min(await cluster.names(VGPUDevice))
    await cluster.ask(name, "NVIDIA L40S-8Q")
    await cluster.answer(name, "Configured")

    await cluster.ask(name, "NVIDIA L40S-24Q")

    await cluster.answer(name, "Configured")
    assert list(cluster.carried(host).values()) == ["NVIDIA L40S-24Q"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("model", "first", "other"),
    [
        ("a2", Q4, Q8),
        pytest.param("l40s", "NVIDIA L40S-8Q", "NVIDIA L40S-24Q", marks=pytest.mark.slow),
    ],
)
async def test_a_change_that_does_not_fit_touches_nothing_until_it_does(
    cluster, gate, model, first, other
):
    host = gate(model, "node1")
    agent = await cluster.start_agent("node1", host)
    one, two, *_ = sorted(await cluster.names(VGPUDevice))
    for name in (one, two):
        await cluster.ask(name, first)
        await cluster.answer(name, "Configured")
    before = (await cluster.get(VGPUDevice, one)).status.uuid
    host.writes.clear()

    await cluster.ask(one, other)

    refused = await cluster.answer(one, "ProfileExhausted")
    await cluster.quiet(agent)
    assert (
        f"no room for another {short_name(other)} (an empty GPU has room for 2): it has "
        f"{short_name(first)}=2." in cluster.message(refused)
    )
    assert refused.status.configure_vgpu_type_name == first
    assert refused.status.uuid == before
    assert list(cluster.carried(host).values()) == [first, first]
    assert host.writes == []

    await cluster.disable(two)
    await cluster.answer(one, "Configured")
    assert list(cluster.carried(host).values()) == [other]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("model", "first", "other"),
    [
        ("a2", Q4, Q8),
        pytest.param("l40s", "NVIDIA L40S-8Q", "NVIDIA L40S-24Q", marks=pytest.mark.slow),
    ],
)
async def test_a_change_that_the_driver_refuses_brings_the_old_vgpu_back_and_is_not_repeated(
    cluster, gate, model, first, other
):
    host = gate(model, "node1")
    agent = await cluster.start_agent("node1", host)
    one, *_ = sorted(await cluster.names(VGPUDevice))
    await cluster.ask(one, first)
    await cluster.answer(one, "Configured")
    before = (await cluster.get(VGPUDevice, one)).status.uuid
    host.writes.clear()
    host.faults.fail_write(2, errno.EIO)  # the first takes the old vGPU away

    await cluster.ask(one, other)

    failed = await cluster.answer(one, "WriteFailed")
    await cluster.quiet(agent)
    await cluster.quiet(agent)
    assert short_name(other) in cluster.message(failed)
    assert failed.status.configure_vgpu_type_name == first
    assert failed.status.uuid == before
    assert list(cluster.carried(host).values()) == [first]
    taken = [path for path in host.writes if path.endswith(("/remove", "vgpu_type"))]
    assert len(taken) == (1 if model == "a2" else 3)  # vendor VFIO: away, refused, and back

    await cluster.ask(one, first)
    await cluster.answer(one, "Configured")


@pytest.mark.slow
async def test_on_a_vendor_card_a_size_that_others_rule_out_is_known(cluster, simulated):
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    one, two, *_ = sorted(await cluster.names(VGPUDevice))
    await cluster.ask(one, "NVIDIA L40S-8Q")
    await cluster.answer(one, "Configured")

    await cluster.ask(two, "NVIDIA L40S-48Q")

    await cluster.answer(two, "ProfileExhausted")
    await cluster.ask(two, "NVIDIA A2-4Q")
    await cluster.answer(two, "ProfileNotOffered")


@pytest.mark.slow
async def test_after_a_reboot_what_ran_comes_before_what_never_fitted(cluster, simulated):
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.ask(SIBLING, Q4)
    await cluster.answer(SIBLING, "Configured")
    await cluster.ask(VGPU, Q8)
    await cluster.answer(VGPU, "ProfileExhausted")
    await cluster.stop_agent(agent)

    rebooted = simulated("a2", "node1")
    await cluster.start_agent("node1", rebooted)

    await cluster.answer(SIBLING, "Configured")
    await cluster.answer(VGPU, "ProfileExhausted")
    assert cluster.carried(rebooted) == {"0000:08:00.5": Q4}


@pytest.mark.slow
async def test_a_held_device_delays_only_its_own_gpu_and_not_the_end(cluster, gate):
    host = gate("l40s", "node1")
    agent = await cluster.start_agent("node1", host)
    objects = sorted(await cluster.all(VGPUDevice), key=lambda v: v.metadata.name)
    gpus = sorted({v.spec.parent_gpu_device_address for v in objects})
    stuck = [v for v in objects if v.spec.parent_gpu_device_address == gpus[0]][:8]
    free = next(v for v in objects if v.spec.parent_gpu_device_address == gpus[1])
    host.held = stuck[0].spec.address
    try:
        for vgpu in stuck:
            await cluster.ask(vgpu.metadata.name, "NVIDIA L40S-4Q")
        await host.written(1)

        await cluster.ask(free.metadata.name, "NVIDIA L40S-8Q")

        await cluster.answer(free.metadata.name, "Configured")
        async with asyncio.timeout(60):
            await cluster.stop_agent(agent)
    finally:
        host.open.set()
