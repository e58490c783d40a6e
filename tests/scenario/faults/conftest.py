"""A cluster whose agent and manager reach the API server through proxies that fail as told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, VGPUDevice
from laneway.controllers.timing import Timing
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.sim.changes import Change
from laneway.simcluster.kubevirt.objects import VMS
from support.asked import Asked
from support.caches import caught_up
from support.fast_time import FastTime
from support.fault_proxy import SECONDS, FaultProxy
from support.worlds import NAMESPACE, World

NODE = "node1"
GPU = "node1-000008000"
VGPU, PROFILE = "node1-000008004", "NVIDIA A2-8Q"
NIC = "node1-000004001"
RESOURCES = {
    "gpus": ["nvidia.com/NVIDIA_A2-8Q"],
    "host_devices": ["intel.com/I350_GIGABIT_NETWORK_CONNECTION"],
}


class Site:
    """The cluster, the lines to its API server, and what a user does."""

    def __init__(self, world: World, agent: FaultProxy, manager: FaultProxy) -> None:
        self.world = world
        self.agent = agent
        self.manager = manager
        self.time = FastTime(lambda: agent.busy or manager.busy)
        self.hardware: list[Change] = []
        """What was written to the node's hardware."""

    async def change(self) -> None:
        """A user sets a vGPU, claims a device, and starts a VM with both."""
        spec = {"enabled": True, "vGPUTypeName": PROFILE}
        await self.world.client.patch(served(VGPUDevice), VGPU, {"spec": spec})
        await self.world.make_claim(NIC)
        await self.world.make_vm("desk", **RESOURCES)

    async def reached(self) -> None:
        """Wait until all of it is as desired, and said to be."""
        await self.world.running("desk")
        await self.world.until(VMS, "desk", _allocated, NAMESPACE)
        await self.world.until(served(VGPUDevice), VGPU, _held)
        await self.world.until(served(PCIDeviceClaim), NIC, _held)

    async def rest(self) -> None:
        """Have everything looked at once more, as it is stored now, and wait until that is done."""
        manager, agent = self.world.manager, self.world.nodes[NODE].agent
        await self.world.cluster.quiet(agent)
        async with asyncio.timeout(SECONDS):
            await caught_up(self.world.client, manager.caches.all.values())
            for part in manager.parts:
                part.ask(part.everything())
                await part.queue.join()
            await manager.recorder.flush()

    @property
    def writes(self) -> list[Asked]:
        """What has been written, but for renewals of the lease."""
        return [
            one
            for line in (self.agent, self.manager)
            for one in line.writes
            if one.resource != "leases"
        ]


def _allocated(vm: Any) -> bool:
    return keys.ANNOTATION_ALLOCATION in vm.metadata.annotations


def _measured(gpu: Any) -> bool:
    return bool(gpu.status.ecc_mode)


def _held(device: Any) -> bool:
    return device.status.allocation is not None


@pytest.fixture
def beginning(kubevirt_installed: Path) -> Path:
    """Every test finds KubeVirt's kinds."""
    return kubevirt_installed


@pytest.fixture
async def site(cluster: Any, tmp_path: Path) -> AsyncIterator[Site]:
    """A manager that leads, and a node with an agent that has published its devices."""
    config = load(str(tmp_path / "kubeconfig"))
    async with contextlib.AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(FaultProxy(config).running()) for _ in range(2)]
        clients = [await stack.enter_async_context(Client(line.config)) for line in lines]
        world = World(cluster, tmp_path / "world")
        world.agent_clients[NODE], world.managers_client = clients
        stack.push_async_callback(world.stop)
        await world.start()
        node = await world.add(NODE, "a2-vfio")
        found = Site(world, *lines)
        # The driver is asked a while after the start. What it tells is published once.
        await found.time.passes(Timing().measure + 2)
        await world.until(served(SRIOVGPUDevice), GPU, _measured)
        node.host.record_changes(found.hardware.append)
        yield found
