"""The webhook dies while VMs start and nodes come: what goes on, and what waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.controllers.timing import Timing
from laneway.kube.client import Client
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.replicas import HOOKS
from support.worlds import World

CONFIGURATIONS = {
    "MutatingWebhookConfiguration": "laneway-mutator",
    "ValidatingWebhookConfiguration": "laneway-validator",
}
NIC, OTHER = "node1-000004001", "node2-000004001"
VGPU = "node1-000008004"
SMALL = "nvidia.com/NVIDIA_A2-8Q"
NOBODY = "https://127.0.0.1:1"


@contextlib.asynccontextmanager
async def away(client: Client) -> AsyncIterator[None]:
    """No server listens where the webhook is, until the block ends."""
    stored = {
        kind: msgspec.json.decode(await client.raw(HOOKS[kind].path(name=name)))["webhooks"]
        for kind, name in CONFIGURATIONS.items()
    }

    async def point(to: str) -> None:
        for kind, hooks in stored.items():
            changed = [
                {**hook, "clientConfig": {**hook["clientConfig"], **({"url": to} if to else {})}}
                for hook in hooks
            ]
            await client.patch(HOOKS[kind], CONFIGURATIONS[kind], {"webhooks": changed})

    await point(NOBODY)
    try:
        yield
    finally:
        await point("")


@pytest.mark.slow
async def test_what_requests_no_device_goes_on_and_everything_else_waits(
    world: World, cluster: Any, admin: Kubectl, make_vm: Any, make_claim: Any
) -> None:
    cluster.timing = Timing(retry=0.2)
    await world.add("node1", "a2-vfio")
    await world.vgpu(VGPU, "NVIDIA A2-8Q")
    desk = make_vm("desk", "Always", gpus=[("screen", SMALL)])
    async with away(cluster.client):
        # A VM without devices must not depend on Laneway's health.
        await admin.ok("create", "-f", "-", stdin=_json(make_vm("plain", "Always")))
        await world.running("plain")
        # With devices it would be stored without anybody having asked whose they are.
        assert "failed calling webhook" in await admin.not_applied(desk)
        said = await admin.not_applied(make_claim(NIC, "0000:04:00.1"))
        assert "failed calling webhook" in said
        # An agent that is new, and one that is requested something, try again until it is back.
        coming = asyncio.create_task(world.add("node2", "a2"))
        assert OTHER not in await cluster.names(PCIDevice)
    await admin.ok("create", "-f", "-", stdin=_json(desk))
    await world.running("desk")
    await world.until(served(VGPUDevice), VGPU, lambda one: one.status.allocation is not None)
    async with away(cluster.client):
        # It goes on, and a write that changes nothing of its requests is not delayed.
        await admin.ok("label", "vm", "desk", "floor=3")
    await coming
    await world.until(served(PCIDevice), OTHER, lambda one: one is not None)
    await world.claim(NIC)
    await world.stop_vm("desk")
    await world.run_vm("desk", on=True)
    await world.running("desk")
    await world.delete_vm("desk")
    await world.until(served(VGPUDevice), VGPU, lambda one: one.status.allocation is None)
    await admin.patch("vgpudevice", VGPU, enabled=False)
    await world.until(served(PCIDeviceClaim), VGPU, lambda one: one is None)


def _json(obj: Any) -> str:
    return msgspec.json.encode(obj).decode()
