"""All objects of a node are lost while its vGPUs run: what runs stays, and is published again."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.host.scan import scan
from laneway.kube.resource import served
from support.examples import first

GPU = "node1-000017000"
VFS = ("node1-000017004", "node1-000017005")
BACKED, SLICED = "GRID A100-1-5C", "GRID A100-4C"
KINDS = (VGPUDevice, MigConfiguration, SRIOVGPUDevice)


async def lose_all(cluster: Any) -> None:
    for cls in KINDS:
        for name in await cluster.names(cls):
            await cluster.client.delete(served(cls), name)


async def divide(cluster: Any) -> None:
    """Two GPU instances for vGPUs, on the first GPU."""
    await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"mode": "MIGBacked"}})
    stored = await cluster.answer(GPU, "Disabled", MigConfiguration)
    wanted = [
        {"name": one.name, "id": one.id, "requested": 2 * (one.name == "MIG 1g.5gb")}
        for one in stored.spec.profile_spec
    ]
    spec = {"enabled": True, "profileSpec": wanted}
    await cluster.patch(MigConfiguration, GPU, {"spec": spec})
    await cluster.answer(GPU, "Synced", MigConfiguration)


@pytest.mark.slow
@pytest.mark.parametrize("running", first(True, False), ids=["agent runs", "agent is dead"])
@pytest.mark.parametrize("profile", first(BACKED, SLICED))
async def test_nothing_is_taken_away(
    cluster: Any, simulated: Any, profile: str, *, running: bool
) -> None:
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    if profile == BACKED:
        await divide(cluster)
    for name in VFS:
        await cluster.ask(name, profile)
        await cluster.answer(name, "Configured")
    await cluster.quiet(agent)
    vgpu = next(one for one in scan(host).vgpus if one.configured)
    assert vgpu.configured is not None
    uuid = vgpu.configured.uuid
    home = f"/sys/bus/mdev/devices/{uuid}" if uuid else f"/sys/bus/pci/devices/{vgpu.address}"
    held = host.hold(f"/dev/vfio/{host.readlink(f'{home}/iommu_group').rpartition('/')[2]}")
    writes, before = host.faults.count, scan(host).vgpus

    if not running:
        await cluster.stop_agent(agent)
    await lose_all(cluster)
    if not running:
        agent = await cluster.start_agent("node1", host)

    for name in VFS:
        stored = await cluster.answer(name, "Configured")
        assert (stored.spec.enabled, stored.spec.vgpu_type_name) == (True, profile)
    gpu = await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)
    assert gpu.spec.enabled
    if profile == BACKED:
        mig = await cluster.answer(GPU, "Synced", MigConfiguration)
        assert sum(one.requested for one in mig.spec.profile_spec) in (0, 2)
    await cluster.quiet(agent)
    assert scan(host).vgpus == before
    assert host.faults.count == writes
    held.release()
