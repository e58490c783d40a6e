"""One spec end to end: a patch on a VGPUDevice, and what hardware and objects do about it."""

from __future__ import annotations

import asyncio

import pytest

from laneway.api import VGPUDevice, find_condition
from laneway.host.scan import scan

VGPU = "node1-000008004"
SIBLING = "node1-000008005"
Q4 = "NVIDIA A2-4Q"


@pytest.fixture
async def a2(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    return host


@pytest.mark.realapi
async def test_enabling_configures_the_vgpu_and_tells_the_siblings(cluster, a2):
    await cluster.ask(VGPU, Q4)

    vgpu = await cluster.answer(VGPU, "Configured")
    sibling = await cluster.until(
        VGPUDevice, SIBLING, lambda v: "NVIDIA A2-8Q" not in v.status.available_types
    )

    assert cluster.carried(a2) == {"0000:08:00.4": Q4}
    assert vgpu.status.vgpu_status == "vGPUConfigured"
    assert vgpu.status.configure_vgpu_type_name == Q4
    assert a2.exists(f"/sys/bus/mdev/devices/{vgpu.status.uuid}")
    assert set(sibling.status.available_types) == {Q4, "NVIDIA A2-4A", "NVIDIA A2-4C"}


@pytest.mark.realapi
async def test_disabling_takes_it_back(cluster, a2):
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")

    await cluster.disable(VGPU)

    vgpu = await cluster.answer(VGPU, "NotConfigured")
    await cluster.until(VGPUDevice, SIBLING, lambda v: "NVIDIA A2-8Q" in v.status.available_types)
    assert cluster.carried(a2) == {}
    assert vgpu.status.uuid == ""
    assert vgpu.status.vgpu_status == ""
    assert vgpu.spec.vgpu_type_name == Q4


@pytest.mark.slow
async def test_a_profile_can_be_changed_while_enabled(cluster, a2):
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")

    await cluster.ask(VGPU, "NVIDIA A2-8Q")

    vgpu = await cluster.answer(VGPU, "Configured")
    assert vgpu.status.configure_vgpu_type_name == "NVIDIA A2-8Q"
    assert cluster.carried(a2) == {"0000:08:00.4": "NVIDIA A2-8Q"}


@pytest.mark.parametrize(
    ("profile", "expected", "words"),
    [
        ("NVIDIA A2-99Q", "ProfileNotOffered", "NVIDIA A2-99Q"),
        ("", "ProfileMissing", "spec.vGPUTypeName is empty"),
    ],
)
async def test_an_impossible_profile_ends_in_a_condition(cluster, a2, profile, expected, words):
    await cluster.ask(VGPU, profile)

    vgpu = await cluster.answer(VGPU, expected)

    condition = find_condition(vgpu.status.conditions, "Ready")
    assert condition.status == "False"
    assert words in condition.message
    assert Q4 in condition.message
    assert cluster.carried(a2) == {}


@pytest.mark.slow
async def test_a_size_that_no_longer_fits_is_refused_and_done_once_it_does(cluster, a2):
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")

    await cluster.ask(SIBLING, "NVIDIA A2-8Q")
    refused = await cluster.answer(SIBLING, "ProfileExhausted")
    await cluster.disable(VGPU)
    await cluster.answer(SIBLING, "Configured")

    assert "A2-4Q=1" in cluster.message(refused)
    assert cluster.carried(a2) == {"0000:08:00.5": "NVIDIA A2-8Q"}


@pytest.mark.realapi
async def test_four_desired_states_at_once_fill_the_card_and_the_fifth_is_refused(cluster, a2):
    names = [f"node1-00000800{number}" for number in (4, 5, 6, 7)]
    await asyncio.gather(*(cluster.ask(name, Q4) for name in names))
    for name in names:
        await cluster.answer(name, "Configured")

    await cluster.ask("node1-000008010", Q4)

    full = await cluster.answer("node1-000008010", "ProfileExhausted")
    assert "A2-4Q=4" in cluster.message(full)
    assert full.status.available_types == {}
    assert len(cluster.carried(a2)) == 4


@pytest.mark.slow
async def test_a_vgpu_made_behind_our_back_is_reported_and_left_alone(cluster, a2):
    kind = next(k for k in scan(a2).vgpus[0].creatable if k.name == Q4)
    uuid = "d3b5a1d8-9d8f-4f0c-8a52-111111111111"

    a2.write(f"/sys/bus/pci/devices/0000:08:00.4/mdev_supported_types/{kind.id}/create", uuid)

    vgpu = await cluster.answer(VGPU, "UnmanagedVgpu")
    assert vgpu.status.uuid == uuid
    assert not vgpu.spec.enabled
    assert cluster.carried(a2) == {"0000:08:00.4": Q4}

    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(a2) == {}


@pytest.mark.slow
async def test_a_restarted_agent_adopts_what_runs_and_finishes_what_was_desired(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    before = await cluster.answer(VGPU, "Configured")
    await cluster.stop_agent(agent)
    await cluster.ask(SIBLING, Q4)

    await cluster.start_agent("node1", host)

    await cluster.answer(SIBLING, "Configured")
    after = await cluster.get(VGPUDevice, VGPU)
    assert after.status.uuid == before.status.uuid
    assert cluster.carried(host) == {"0000:08:00.4": Q4, "0000:08:00.5": Q4}


@pytest.mark.slow
@pytest.mark.realapi
async def test_after_a_reboot_every_vgpu_comes_back_with_its_uuid(cluster, simulated):
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    before = await cluster.answer(VGPU, "Configured")
    await cluster.stop_agent(agent)

    rebooted = simulated("a2", "node1")
    await cluster.start_agent("node1", rebooted)

    after = await cluster.answer(VGPU, "Configured")
    assert after.status.uuid == before.status.uuid
    assert rebooted.exists(f"/sys/bus/mdev/devices/{before.status.uuid}")


async def test_vendor_vfio_works_alike(cluster, simulated):
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    vgpu, sibling, *_ = sorted(await cluster.all(VGPUDevice), key=lambda v: v.metadata.name)
    profile = next(name for name in vgpu.status.available_types if name.endswith("-8Q"))
    type_id = vgpu.status.available_types[profile]

    await cluster.ask(vgpu.metadata.name, profile)
    done = await cluster.answer(vgpu.metadata.name, "Configured")

    assert done.status.framework == "vendor-vfio"
    assert done.status.uuid == type_id
    path = f"/sys/bus/pci/devices/{vgpu.spec.address}/nvidia/current_vgpu_type"
    assert host.read(path).strip() == type_id.encode()
    rest = await cluster.until(
        VGPUDevice,
        sibling.metadata.name,
        lambda v: len(v.status.available_types) < len(sibling.status.available_types),
    )
    assert all("-8" in name for name in rest.status.available_types)

    await cluster.disable(vgpu.metadata.name)
    await cluster.answer(vgpu.metadata.name, "NotConfigured")
    assert host.read(path).strip() == b"0"


@pytest.mark.slow
async def test_a_refused_write_is_reported_and_the_old_state_stays(cluster, gate):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")

    host.refused = "/"
    await cluster.disable(VGPU)
    held = await cluster.answer(VGPU, "WriteFailed")

    assert "EBUSY" in cluster.message(held)
    assert held.status.vgpu_status == "vGPUConfigured"
    assert cluster.carried(host) == {"0000:08:00.4": Q4}

    # The tear-down was begun, so a restarted agent goes on with it.
    await cluster.stop_agent(agent)
    host.refused = ""
    await cluster.start_agent("node1", host)
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}
