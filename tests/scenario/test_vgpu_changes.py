"""Another profile for vGPUs that exist: alone, with siblings, in every mode, and while in use."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.core.phrases import short_name
from laneway.host.scan import scan

A2, L40S, RTX = "NVIDIA A2", "NVIDIA L40S", "NVIDIA RTX Pro 6000 Blackwell DC"


def gpu_name(host: Any) -> str:
    gpu = min(one.address for one in scan(host).functions if one.sriov_gpu)
    return f"node1-{str(gpu).replace(':', '').replace('.', '')}"


async def functions(cluster: Any, host: Any) -> list[str]:
    gpu = await cluster.get(SRIOVGPUDevice, gpu_name(host))
    return list(gpu.status.vgpu_devices)


async def carry(cluster: Any, names: list[str], profiles: list[str]) -> None:
    """Have functions carry these, one after the other."""
    for name, profile in zip(names, profiles, strict=True):
        await cluster.ask(name, profile)
        await cluster.answer(name, "Configured")


async def in_mode(cluster: Any, host: Any, mode: str) -> None:
    name = gpu_name(host)
    await cluster.patch(SRIOVGPUDevice, name, {"spec": {"enabled": True, "mode": mode}})
    await cluster.until(SRIOVGPUDevice, name, lambda gpu: gpu.status.mode == mode)


def vfio_group(host: Any, vgpu: Any) -> str:
    """What a virtual machine opens to use a vGPU."""
    home = f"/sys/bus/pci/devices/{vgpu.spec.address}"
    if vgpu.status.framework == "mdev":
        home = f"/sys/bus/mdev/devices/{vgpu.status.uuid}"
    return f"/dev/vfio/{host.readlink(f'{home}/iommu_group').rpartition('/')[2]}"


@pytest.mark.parametrize(
    ("model", "board"), [("a2", A2), pytest.param("l40s", L40S, marks=pytest.mark.slow)]
)
async def test_siblings_that_change_their_size_together_do(cluster, simulated, model, board):
    host = simulated(model, "node1")
    await cluster.start_agent("node1", host)
    one, two, *_ = await functions(cluster, host)
    await carry(cluster, [one, two], [f"{board}-4Q"] * 2)

    await cluster.ask(one, f"{board}-8Q")
    refused = await cluster.answer(one, "ProfileExhausted")
    assert f"{short_name(board)}-4Q=2" in cluster.message(refused)
    await cluster.ask(two, f"{board}-8Q")

    for name in (one, two):
        vgpu = await cluster.answer(name, "Configured")
        assert vgpu.status.configure_vgpu_type_name == f"{board}-8Q"
    assert sorted(cluster.carried(host).values()) == [f"{board}-8Q"] * 2


async def test_more_than_fit_together_all_stay_as_they_are(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    names = (await functions(cluster, host))[:4]
    await carry(cluster, names, [f"{A2}-4Q"] * 4)
    writes = host.faults.count

    for name in names:
        await cluster.ask(name, f"{A2}-8Q")
    for name in names:
        vgpu = await cluster.answer(name, "ProfileExhausted")
        assert (
            "no room for another A2-8Q (an empty GPU has room for 2): it has A2-4Q=4."
            in cluster.message(vgpu)
        )
    await cluster.quiet(agent)

    assert host.faults.count == writes
    for name in names[2:]:
        await cluster.disable(name)
    for name in names[:2]:
        await cluster.answer(name, "Configured")
    assert sorted(cluster.carried(host).values()) == [f"{A2}-8Q"] * 2


@pytest.mark.slow
async def test_in_mixed_mode_a_change_looks_for_a_place(cluster, simulated):
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    await in_mode(cluster, host, "MixedSize")
    one, two, *_ = await functions(cluster, host)
    await carry(cluster, [one, two], [f"{L40S}-24Q", f"{L40S}-16Q"])

    await cluster.ask(two, f"{L40S}-48Q")
    refused = await cluster.answer(two, "ProfileExhausted")
    assert "L40S-16Q=1, L40S-24Q=1" in cluster.message(refused)
    await cluster.ask(two, f"{L40S}-24Q")
    await cluster.answer(two, "Configured")
    await cluster.ask(one, f"{L40S}-8Q")
    vgpu = await cluster.answer(one, "Configured")

    assert vgpu.status.placement == 0
    assert sorted(cluster.carried(host).values()) == [f"{L40S}-24Q", f"{L40S}-8Q"]


@pytest.mark.slow
async def test_in_a_gpu_instance_one_size_becomes_another(cluster, simulated):
    host = simulated("rtx-pro-6000", "node1")
    await cluster.start_agent("node1", host)
    gpu = gpu_name(host)
    await in_mode(cluster, host, "MIGBacked")
    await cluster.until(MigConfiguration, gpu, lambda mig: mig is not None)
    wanted = {"enabled": True, "profileSpec": [{"name": "MIG 1g.24gb+gfx", "requested": 1}]}
    await cluster.patch(MigConfiguration, gpu, {"spec": wanted})
    await cluster.until(MigConfiguration, gpu, lambda mig: mig.status.status == "synced")
    one, two, *_ = await functions(cluster, host)
    await carry(cluster, [one, two], [f"{RTX}-1-4Q"] * 2)
    assert (await cluster.get(VGPUDevice, one)).status.gpu_instance is not None

    await cluster.ask(one, f"{RTX}-1-8Q")
    await cluster.answer(one, "ProfileExhausted")
    await cluster.ask(two, f"{RTX}-1-8Q")

    for name in (one, two):
        await cluster.answer(name, "Configured")
    assert sorted(cluster.carried(host).values()) == [f"{RTX}-1-8Q"] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("model", "board"), [("a2", A2), pytest.param("l40s", L40S, marks=pytest.mark.slow)]
)
async def test_a_vgpu_in_use_is_not_touched_whatever_its_object_says(
    cluster, simulated, model, board
):
    host = simulated(model, "node1")
    agent = await cluster.start_agent("node1", host)
    one, two, *_ = await functions(cluster, host)
    await carry(cluster, [one, two], [f"{board}-4Q"] * 2)
    before = cluster.carried(host)
    vgpu = await cluster.get(VGPUDevice, one)
    machine = host.hold(vfio_group(host, vgpu))
    writes = host.faults.count

    # The one in use is to change its series, then its size together with its sibling, then to go.
    await cluster.ask(one, f"{board}-4A")
    assert "has /dev/vfio/" in cluster.message(await cluster.answer(one, "DeviceInUse"))
    await cluster.ask(one, f"{board}-8Q")
    await cluster.ask(two, f"{board}-8Q")
    await cluster.answer(one, "DeviceInUse")
    refused = await cluster.answer(two, "ProfileExhausted")
    assert f"{vgpu.spec.address} is in use" in cluster.message(refused)
    await cluster.disable(one)
    await cluster.answer(one, "DeviceInUse")
    await cluster.quiet(agent)
    assert cluster.carried(host) == before
    assert host.faults.count == writes

    machine.release()
    await cluster.answer(one, "NotConfigured")
    await cluster.answer(two, "Configured")
    assert list(cluster.carried(host).values()) == [f"{board}-8Q"]
