"""GPU instances that cannot be, agents that die over them, and what is reported of both."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.core.hardware_change import REASON
from laneway.kube.resource import served
from support.divided import (
    SMI,
    dies_before,
    divider,
    gpus_of,
    object_of,
    offering,
    written,
)
from support.examples import first


@pytest.fixture
def divided(cluster: Any, simulated: Any) -> Any:
    return divider(cluster, simulated)


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.slow
async def test_a_set_that_cannot_be_is_refused_and_nothing_goes_for_it(cluster, divided):
    gpu = divided("hgx-h100")
    await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"3g.40gb": 1})
    await gpu.answer("Synced")
    before = await gpu.spots()

    await gpu.ask({"3g.40gb": 2, "1g.10gb": 1, "7g.80gb": 1})
    assert "do not fit" in await gpu.refused("InstancesDoNotFit")
    await gpu.ask({"1g.10gb": 8})
    assert "room for 7 x 1g.10gb, not 8" in await gpu.refused("InstancesDoNotFit")
    await gpu.ask({"1g.10gb": -8})
    await gpu.refused("CountInvalid")
    assert await gpu.spots() == before

    await gpu.ask({"3g.40gb": 2})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"3g.40gb": 2}


@pytest.mark.slow
async def test_without_mig_mode_it_says_where_to_request_it(cluster, divided):
    gpu = divided(functions=False)
    gpu.address = gpus_of(gpu.host)[1]
    gpu.name = object_of(gpu.address)
    await cluster.start_agent("node1", gpu.host)
    # A choice for later: nothing is done for it until the GPU is enabled.
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"enabled": False, "mode": "MIGBacked"}})

    await gpu.ask({"1g.5gb": 2})

    text = await gpu.refused("MigModeDisabled")
    assert f"spec.mode of SRIOVGPUDevice {gpu.name} to MIG" in text
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"mode": "Passthrough"}})
    await gpu.refused("MigModeDisabled")
    assert await gpu.spots() == []
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"mode": "MIG"}})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}


async def test_an_instance_with_a_vgpu_stays_until_that_is_gone(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2, "3g.20gb": 1})
    await gpu.answer("Synced")
    vgpu = await offering(cluster, gpu, "GRID A100-3-20C")
    await cluster.ask(vgpu, "GRID A100-3-20C")
    carried = await cluster.answer(vgpu, "Configured")

    for counts, enabled in (({"1g.5gb": 7}, True), ({"1g.5gb": 2, "3g.20gb": 1}, False)):
        await gpu.ask(counts, enabled=enabled)
        text = await gpu.refused("DeviceInUse")
        assert f"GRID A100-3-20C on {carried.spec.address}" in text
    assert await gpu.counts() == {"1g.5gb": 2, "3g.20gb": 1}
    await gpu.ask({"1g.5gb": 1, "3g.20gb": 1, "2g.10gb": 1})  # what is next to it may change
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1}
    await gpu.ask({"7g.40gb": 1})
    await gpu.refused("DeviceInUse")
    late = await offering(cluster, gpu, "GRID A100-1-5C")
    await cluster.ask(late, "GRID A100-1-5C")  # would keep an instance that is to go
    waiting = await cluster.answer(late, "GpuNotReady")
    assert carried.spec.address in cluster.message(waiting)

    await cluster.disable(vgpu)

    await gpu.answer("Synced")
    await cluster.quiet(agent)
    assert await gpu.counts() == {"7g.40gb": 1}


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_nothing_is_destroyed_while_a_process_computes(cluster, divided):
    gpu = divided(functions=False)
    await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")
    holder = gpu.host.hold("/dev/nvidia0", "python")

    await gpu.ask({"1g.5gb": 3})
    await gpu.answer("Synced")
    await gpu.enable(False)
    assert "python" in await gpu.refused("DeviceInUse")
    assert await gpu.counts() == {"1g.5gb": 3}

    holder.release()
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


@pytest.mark.slow
async def test_a_gpu_that_does_not_answer_keeps_its_last_report_and_is_left_alone(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    reported = (await gpu.answer("Synced")).status.profile_status
    before = await gpu.spots()

    gpu.host.faults.fail_command(SMI, 18, "Driver/library version mismatch", times=1000)
    await gpu.look(agent)
    assert "version mismatch" in await gpu.refused("GpuUnreadable")
    await gpu.enable(False)
    stored = await gpu.answer("GpuUnreadable")
    await cluster.quiet(agent)
    gpu.host.faults.clear()

    assert list(stored.status.profile_status) == list(reported)
    assert await gpu.spots() == before
    await gpu.look(agent)
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


@pytest.mark.slow
async def test_an_object_that_speaks_of_another_card_moves_nothing(cluster, divided):
    gpu = divided()
    gpu.mig("-cgi", "19", "-C")
    spec = {"enabled": False, "gpuAddress": gpus_of(gpu.host)[1], "nodeName": "node1"}
    await cluster.client.create(served(MigConfiguration), written(gpu.name, **spec))

    await cluster.start_agent("node1", gpu.host)

    await gpu.refused("NameMismatch")
    assert await gpu.counts() == {"1g.5gb": 1}


# ------------------------------------------------------------------------------ crashes, reboots


@pytest.mark.slow
async def test_after_a_reboot_instances_come_before_their_vgpus(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2, "3g.20gb": 1})
    await gpu.answer("Synced")
    desired = {}
    for profile in ("GRID A100-1-5C", "GRID A100-3-20C", "GRID A100-1-5C"):
        vgpu = await offering(cluster, gpu, profile)
        await cluster.ask(vgpu, profile)
        await cluster.answer(vgpu, "Configured")
        desired[vgpu] = profile
    before = cluster.carried(gpu.host)
    await cluster.stop_agent(agent)

    rebooted = divided(functions=False)  # MIG mode survives, and nothing else
    await cluster.start_agent("node1", rebooted.host)

    for vgpu, profile in desired.items():
        await cluster.until(
            VGPUDevice, vgpu, lambda v, p=profile: v.status.configure_vgpu_type_name == p
        )
    await rebooted.answer("Synced")
    assert await rebooted.counts() == {"1g.5gb": 2, "3g.20gb": 1}
    assert cluster.carried(rebooted.host) == before


@pytest.mark.slow
async def test_instances_wait_for_the_functions_that_would_destroy_them(cluster, divided, gate):
    gpu = divided(functions=False, made_by=gate)
    await cluster.start_agent("node1", gpu.host)
    await gpu.answer("Disabled")
    gpu.host.held = "sriov-manage"
    spec = {"enabled": True, "mode": "MIGBacked"}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": spec})
    await gpu.host.written(1)

    await gpu.ask({"1g.5gb": 2})

    assert "MIGBacked" in await gpu.refused("GpuNotReady")
    assert await gpu.spots() == []
    gpu.host.held = ""
    gpu.host.open.set()
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}


@pytest.mark.slow
@pytest.mark.parametrize("when", first("during", "before", "after"))
async def test_an_agent_killed_at_any_write_ends_as_one_that_was_not(cluster, divided, when):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    sets = ({"1g.5gb": 1, "3g.20gb": 1}, {"1g.5gb": 2, "2g.10gb": 2})
    await gpu.ask(sets[0])
    await gpu.answer("Synced")
    await cluster.quiet(agent)
    for number in count(1):
        # Each round begins where the last one has ended.
        counts = sets[number % 2]
        gpu.host.faults.kill_at(number, when)
        await gpu.ask(counts)
        if not await dies_before(agent, gpu.answer("Synced")):
            break
        gpu.host.restart()
        agent = await cluster.start_agent("node1", gpu.host)
        await gpu.answer("Synced")
        assert await gpu.counts() == counts
        await cluster.quiet(agent)
    assert number > 6
    assert await gpu.counts() == counts


# -------------------------------------------------------------------------------- what it tells


@pytest.mark.slow
@pytest.mark.realapi
async def test_events_and_metrics_tell_who_did_what_and_how_long_it_took(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 1})
    await gpu.answer("Synced")
    await cluster.quiet(agent)

    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    ((reason, message),) = [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["kind"] == "MigConfiguration" and item["reason"] != REASON
    ]
    assert reason == "Configured"
    assert "by laneway agent in " in message
    assert "create GPU instance 1g.5gb at 0" in message
    labels = {"node": "node1", "operation": "configure-mig", "result": "done"}
    metrics = cluster.families.registry.get_sample_value
    assert metrics("laneway_operation_seconds_count", labels) == 1


@pytest.mark.slow
@pytest.mark.realapi
async def test_at_rest_nothing_is_asked_or_written(cluster, divided, requests):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 8})
    await gpu.refused("InstancesDoNotFit")
    await cluster.quiet(agent)
    requests.clear()
    before = gpu.host.faults.count

    for _ in range(3):
        await gpu.look(agent)
        await cluster.quiet(agent)

    assert requests == []
    assert gpu.host.faults.count == before
