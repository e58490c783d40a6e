"""Many vGPUs of one GPU: made in an order in which all fit, and back in place after a boot."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.resource import served
from support.caches import caught_up
from support.examples import first

MANAGE = "/usr/lib/nvidia/sriov-manage"

# Desired in this order of functions; only the largest first lets all of them fit.
MIXED = {
    "l40s": [f"NVIDIA L40S-{size}" for size in ("1Q", "16Q", "24Q")],
    "hgx-h100": [f"NVIDIA H100XM-{size}" for size in ("4C", "16C", "20C", "40C")],
}


def gpu_of(host: Any) -> PciAddress:
    return min(one.address for one in scan(host).functions if one.sriov_gpu)


def named(address: PciAddress) -> str:
    return f"node1-{str(address).replace(':', '').replace('.', '')}"


def rebooted(host: Any) -> Any:
    """As a host is after a boot: its GPUs have no virtual functions."""
    for gpu in [str(one.address) for one in scan(host).functions if one.sriov_gpu]:
        assert host.call([MANAGE, "-d", gpu]).status == 0
    return host


def places(host: Any) -> dict[str, tuple[str, int | None]]:
    """What is where, by function: UUID, or type where there is none, and first slot."""
    return {
        str(one.address): (vgpu.uuid or vgpu.type_id, vgpu.placement)
        for one in scan(host).vgpus
        if (vgpu := one.configured)
    }


async def functions(cluster: Any, host: Any) -> list[str]:
    """The VGPUDevices of the first GPU, in numeric order."""
    gpu = await cluster.get(SRIOVGPUDevice, named(gpu_of(host)))
    return list(gpu.status.vgpu_devices)


async def mix(cluster: Any, host: Any) -> None:
    """Choose mixed sizes for the first GPU, and wait until it is so."""
    name = named(gpu_of(host))
    await cluster.patch(SRIOVGPUDevice, name, {"spec": {"enabled": True, "mode": "MixedSize"}})
    await cluster.until(
        SRIOVGPUDevice,
        name,
        lambda g: g.status.mode == "MixedSize" and cluster.reason(g) == "Enabled",
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", first(*sorted(MIXED)))
async def test_sizes_desired_together_are_made_so_that_all_fit(cluster, simulated, model):
    host = simulated(model, "node1")
    agent = await cluster.start_agent("node1", host)
    await mix(cluster, host)
    names = (await functions(cluster, host))[: len(MIXED[model])]
    await cluster.stop_agent(agent)
    for name, profile in zip(names, MIXED[model], strict=True):
        await cluster.ask(name, profile)

    agent = await cluster.start_agent("node1", host)

    await agent.restored.wait()
    there = places(host)
    assert len(there) == len(names)
    for name, profile in zip(names, MIXED[model], strict=True):
        vgpu = await cluster.answer(name, "Configured")
        assert vgpu.status.configure_vgpu_type_name == profile
        assert (vgpu.status.uuid, vgpu.status.placement) == there[vgpu.spec.address]


@pytest.mark.slow
@pytest.mark.parametrize("model", first("a2", *sorted(MIXED)))
async def test_after_a_reboot_everything_is_back_where_it_was(cluster, simulated, model):
    host = simulated(model, "node1")
    agent = await cluster.start_agent("node1", host)
    if model == "a2":
        desired_states = ["NVIDIA A2-4C", "NVIDIA A2-4Q", "NVIDIA A2-4A"]
    else:
        await mix(cluster, host)
        desired_states = MIXED[model][1:]
    names = await functions(cluster, host)
    # By hand, one after the other, and not the largest first.
    for name, profile in zip(names[2:], desired_states, strict=False):
        await cluster.ask(name, profile)
        await cluster.answer(name, "Configured")
    assert len(places(host)) == len(desired_states)
    await cluster.ask(names[0], desired_states[0])  # It gets a place only if there is one left.
    await cluster.until(
        VGPUDevice, names[0], lambda v: cluster.reason(v) in ("Configured", "ProfileExhausted")
    )
    before = places(host)
    await cluster.stop_agent(agent)

    host = rebooted(simulated(model, "node1"))
    agent = await cluster.start_agent("node1", host)

    await agent.restored.wait()
    assert places(host) == before
    assert cluster.metric("laneway_restored_seconds") > 0


@pytest.mark.slow
async def test_what_was_where_outlasts_agents_that_could_not_bring_it_back(cluster, simulated):
    host = simulated("l40s", "node1")
    agent = await cluster.start_agent("node1", host)
    await mix(cluster, host)
    first, second, third, *_ = await functions(cluster, host)
    for name, profile in ((third, "8Q"), (second, "24Q")):
        await cluster.ask(name, f"NVIDIA L40S-{profile}")
        await cluster.answer(name, "Configured")
    before = places(host)
    await cluster.ask(first, "NVIDIA L40S-24Q")  # never fitted
    await cluster.answer(first, "ProfileExhausted")
    await cluster.stop_agent(agent)

    host = rebooted(simulated("l40s", "node1"))
    host.faults.fail_command(MANAGE, 1, "Cannot obtain the lock of the GPU", times=1000)
    agent = await cluster.start_agent("node1", host)
    waiting = await cluster.answer(second, "GpuNotReady")
    await cluster.answer(third, "GpuNotReady")
    assert "MixedSize" in cluster.message(waiting)
    assert waiting.status.configure_vgpu_type_name == ""
    assert waiting.status.last_type_name == "NVIDIA L40S-24Q"
    await cluster.stop_agent(agent)
    host.faults.clear()

    agent = await cluster.start_agent("node1", host)

    await agent.restored.wait()
    assert places(host) == before
    back = await cluster.answer(second, "Configured")
    assert back.status.last_type_name == ""
    await cluster.answer(first, "ProfileExhausted")


@pytest.mark.usefixtures("impatient")
async def test_a_desired_state_waits_for_its_gpu_and_goes_on_by_itself(cluster, simulated):
    host = rebooted(simulated("a2", "node1"))
    host.faults.fail_command(MANAGE, 1, "Cannot obtain the lock of the GPU", times=1000)
    await cluster.start_agent("node1", host)
    gpu = named(gpu_of(host))
    spec = {
        "address": "0000:08:00.4",
        "nodeName": "node1",
        "parentGPUDeviceAddress": str(gpu_of(host)),
        "enabled": True,
        "vGPUTypeName": "NVIDIA A2-4Q",
    }
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {"name": "node1-000008004", "labels": {"nodename": "node1"}},
        "spec": spec,
    }
    await cluster.client.create(served(VGPUDevice), body)
    disabled = await cluster.answer("node1-000008004", "GpuDisabled")
    assert f"kubectl patch sriovgpudevice {gpu} --type merge" in cluster.message(disabled)

    await cluster.patch(SRIOVGPUDevice, gpu, {"spec": {"enabled": True}})
    await cluster.answer("node1-000008004", "GpuNotReady")

    host.faults.clear()
    await cluster.answer("node1-000008004", "Configured")


@pytest.mark.slow
@pytest.mark.parametrize("model", first("a2", "l40s"))
async def test_one_that_the_driver_refuses_delays_no_others(cluster, simulated, model):
    host = simulated(model, "node1")
    agent = await cluster.start_agent("node1", host)
    first, *others = (await functions(cluster, host))[:4]
    await cluster.stop_agent(agent)
    profile = {"a2": "NVIDIA A2-4Q", "l40s": "NVIDIA L40S-8Q"}[model]
    for name in (first, *others):
        await cluster.ask(name, profile)
    address = (await cluster.get(VGPUDevice, first)).spec.address
    path = "nvidia/current_vgpu_type" if model == "l40s" else "create"
    ways = [
        f"{address}/{path}"
        if model == "l40s"
        else f"{address}/mdev_supported_types/{kind.id}/create"
        for vf in scan(host).vgpus
        if str(vf.address) == address
        for kind in vf.supported
    ]
    for way in set(ways):
        host.faults.refuse(way, errno.EIO, 1000)

    agent = await cluster.start_agent("node1", host)

    await agent.restored.wait()
    for name in others:
        await cluster.answer(name, "Configured")
    failed = await cluster.answer(first, "WriteFailed")
    assert "EIO" in cluster.message(failed)
    assert len(cluster.carried(host)) == 3


@pytest.mark.slow
async def test_waiting_vms_are_named_when_their_gpu_is_to_become_something_else(cluster, gate):
    gated = gate("l40s", "node1")
    agent = await cluster.start_agent("node1", gated)
    there, first, second, third, other = (await functions(cluster, gated.host))[:5]
    await cluster.ask(there, "NVIDIA L40S-8Q")  # so another one changes nothing for the rest
    await cluster.answer(there, "Configured")
    gated.held, before = "current_vgpu_type", len(gated.writes)
    await cluster.ask(first, "NVIDIA L40S-8Q")
    await gated.written(before + 1)
    for name in (second, third):
        await cluster.ask(name, "NVIDIA L40S-8Q")
    await cluster.ask(other, "NVIDIA L40S-9Q")
    await cluster.answer(other, "ProfileNotOffered")  # so those before it are in line

    gpu = named(gpu_of(gated.host))
    await cluster.patch(SRIOVGPUDevice, gpu, {"spec": {"mode": "MixedSize"}})
    await caught_up(cluster.client, agent.caches.waited_for)
    gated.open.set()

    await cluster.answer(first, "Configured")
    for name in (second, third):
        await cluster.answer(name, "GpuNotReady")
