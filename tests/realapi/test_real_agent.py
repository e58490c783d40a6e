"""The agent of a simulated host on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from laneway.api import PCIDevice, SRIOVGPUDevice, VGPUDevice
from laneway.controllers.metrics import MetricFamilies
from laneway.host.scan import scan
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of


@asynccontextmanager
async def agent_of(server: Any, host: Any, folder: Path) -> AsyncIterator[None]:
    """An agent that has published everything; it is stopped at the end."""
    agent = Agent(server.node, hardware_of(host, folder), server.client, MetricFamilies())
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(60):
            await agent.ready.wait()
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_desired_state_for_a_vgpu_is_carried_out_and_taken_back(
    server: Any, tmp_path: Path
) -> None:
    host = build(parse_spec("a2"), server.node)
    name = f"{server.node}-000008004"
    sibling = f"{server.node}-000008005"
    vgpus = served(VGPUDevice)
    async with agent_of(server, host, tmp_path):
        assert len(await server.of_node(VGPUDevice)) == 16
        assert len(await server.of_node(SRIOVGPUDevice)) == 1
        assert len(await server.of_node(PCIDevice)) > 17

        desired = {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}}
        await server.client.patch(vgpus, name, desired)
        done = await server.until(
            VGPUDevice, name, lambda v: v.status.configure_vgpu_type_name == "NVIDIA A2-4Q"
        )
        offered = await server.until(
            VGPUDevice, sibling, lambda v: "NVIDIA A2-2Q" not in v.status.available_types
        )
        assert "NVIDIA A2-4Q" in offered.status.available_types
        assert host.exists(f"/sys/bus/mdev/devices/{done.status.uuid}")

        await server.client.patch(vgpus, name, {"spec": {"enabled": False}})
        await server.until(VGPUDevice, name, lambda v: not v.status.uuid)
        assert all(function.configured is None for function in scan(host).vgpus)


async def test_a_restart_writes_nothing(server: Any, tmp_path: Path) -> None:
    host = build(parse_spec("a2"), server.node)
    async with agent_of(server, host, tmp_path):
        before = await versions(server)

    async with agent_of(server, host, tmp_path):
        after = await versions(server)

    assert after == before


async def versions(server: Any) -> dict[str, str]:
    return {
        name: obj.metadata.resource_version
        for cls in (PCIDevice, SRIOVGPUDevice, VGPUDevice)
        for name, obj in (await server.of_node(cls)).items()
    }
