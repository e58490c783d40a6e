"""Machines, claims and vGPUs come and go at random, and whatever helps them dies meanwhile.

Users claim and release, configure vGPUs and take them away, make, start, stop and delete VMs;
guests shut down; agents, kubelets and the manager are killed, nodes are booted. No device is ever
open in two VMs, none that is open is written to, and when everybody has given up everything,
hardware and KubeVirt's lists are as they were found.

`LANEWAY_SEED` chooses the story, `LANEWAY_CHANGES` says how long it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim, VGPUDevice
from laneway.controllers.timing import Timing
from laneway.host.scan import scan
from laneway.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS
from support.examples import many
from support.reviewed import wanted
from support.worlds import NAMESPACE, SECONDS, SimNode, World

STEPS = int(os.environ.get("LANEWAY_CHANGES") or many(120))
SEED = int(os.environ.get("LANEWAY_SEED") or 6)
CALM = 0.4
"""Up to so many seconds lie between two steps, so that they meet each other's work half done."""
SIZES = ("NVIDIA A2-4Q", "NVIDIA A2-8Q")
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
GPU, AUDIO = (
    "nvidia.com/GP104_GEFORCE_GTX_1080",
    "nvidia.com/GP104_HIGH_DEFINITION_AUDIO_CONTROLLER",
)
RESOURCES = (NIC, GPU, AUDIO, "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/NVIDIA_A2-8Q")
MODELS = {"node1": "a2", "node2": "a2-vfio", "node3": "workstation"}
CLAIMS = (
    "node1-000004001",
    "node2-000004001",
    "node3-000008000",
    "node3-000008001",
    "node3-000001000",  # Its root disk: never to be had.
)
REFUSALS = (ForbiddenError, InvalidError) if wanted() else ()
"""What a user meets where admission looks at desired states; then they are not written."""
VGPUS = tuple(f"{node}-00000800{n}" for node in ("node1", "node2") for n in (4, 5, 6))
FOREIGN = {"pciVendorSelector": "1234:5678", "resourceName": "example.com/theirs"}


class Story:
    """What users and fate do; the world is what it happens to."""

    def __init__(self, world: World, luck: random.Random) -> None:
        self.world = world
        self.luck = luck
        self.reported: list[str] = []
        self._made = 0

    async def step(self) -> None:
        operations: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self.claim),
            (3, self.release),
            (4, self.configure),
            (2, self.disable),
            (6, self.make),
            (3, self.switch),
            (3, self.delete),
            (2, self.shut_down),
            (2, self.kill_agent),
            (2, self.kill_kubelet),
            (1, self.kill_manager),
            (1, self.boot),
        ]
        [(_, operation_names)] = self.luck.choices(operations, [weight for weight, _ in operations])
        # What a user names may have gone, or come, a moment ago; admission refuses what cannot be.
        with contextlib.suppress(NotFoundError, AlreadyExistsError, ConflictError, *REFUSALS):
            await operation_names()

    async def claim(self) -> None:
        name = self._tell("claim", self.luck.choice(CLAIMS))
        await self.world.make_claim(name, disableResourcePooling=self.luck.random() < 0.2)

    async def release(self) -> None:
        name = self._tell("release", self.luck.choice(CLAIMS))
        await self.world.client.delete(served(PCIDeviceClaim), name)

    async def configure(self) -> None:
        spec = {"enabled": True, "vGPUTypeName": self.luck.choice(SIZES)}
        name = self._tell("configure", self.luck.choice(VGPUS))
        await self.world.client.patch(served(VGPUDevice), name, {"spec": spec})

    async def disable(self) -> None:
        name = self._tell("disable", self.luck.choice(VGPUS))
        await self.world.client.patch(served(VGPUDevice), name, {"spec": {"enabled": False}})

    async def make(self) -> None:
        self._made += 1
        asked = self.luck.choices(RESOURCES, k=self.luck.randint(1, 3))
        name = self._tell(f"make, with {asked},", f"vm{self._made}")
        gpus = [one for one in asked if "A2" in one]
        await self.world.make_vm(name, host_devices=[x for x in asked if x not in gpus], gpus=gpus)

    async def switch(self) -> None:
        if name := await self._vm():
            await self.world.run_vm(self._tell("switch", name), on=self.luck.random() < 0.5)

    async def delete(self) -> None:
        if name := await self._vm():
            await self.world.client.delete(VMS, self._tell("delete", name), NAMESPACE)

    async def shut_down(self) -> None:
        node = self._node()
        if uids := sorted(node.holders()):
            node.runtime.exit(self._tell("shut down", self.luck.choice(uids)), 0)

    async def kill_agent(self) -> None:
        node = self._node()
        self._tell("kill the agent of", node.name)
        await self.world.kill_agent(node)
        await self.world.start_agent(node)

    async def kill_kubelet(self) -> None:
        node = self._node()
        self._tell("kill the kubelet of", node.name)
        await self.world.restart_kubelet(node)

    async def kill_manager(self) -> None:
        self._tell("kill", "the manager")
        await self.world.restart_manager()

    async def boot(self) -> None:
        node = self._node()
        self._tell("boot", node.name)
        await self.world.boot(node)

    async def _vm(self) -> str:
        pages = self.world.client.list(VMS, NAMESPACE)
        there = sorted([VMS.decode(x).metadata.name async for p in pages for x in p.items])
        return self.luck.choice(there) if there else ""

    def _node(self) -> SimNode:
        return self.luck.choice(sorted(self.world.nodes.values(), key=lambda one: one.name))

    def _tell(self, what: str, whom: str) -> str:
        self.reported.append(f"{what} {whom}")
        return whom


def check(node: SimNode) -> None:
    """What is so at every moment."""
    opened = [path for paths in node.holders().values() for path in paths]
    assert len(opened) == len(set(opened)), f"{node.name}: open in two machines: {opened}"
    # A write to a device that is open would wait in the kernel for as long as it is.
    assert not node.host._locks.waiting, f"{node.name}: a write waits for who has a device open"


async def give_everything_up(world: World) -> None:
    """As users would who leave: VMs first, because nothing is taken from them."""
    await everything_deleted(world, VMS, NAMESPACE)
    if REFUSALS:
        await none_left(world, VMS, NAMESPACE)
        await none_left(world, INSTANCES, NAMESPACE)
    # The claims of vGPUs are no other's to delete where that is looked at.
    await everything_deleted(world, served(PCIDeviceClaim), spared=VGPUS if REFUSALS else ())
    off = {"spec": {"enabled": False}}
    for name in VGPUS:
        await insist(lambda name=name: world.client.patch(served(VGPUDevice), name, off))


async def everything_deleted(
    world: World, resource: Any, namespace: str = "", spared: Sequence[str] = ()
) -> None:
    pages = world.client.list(resource, namespace)
    for name in [resource.decode(x).metadata.name async for p in pages for x in p.items]:
        if name in spared:
            continue
        with contextlib.suppress(NotFoundError):
            await insist(lambda name=name: world.client.delete(resource, name, namespace))


async def insist(desired: Callable[[], Awaitable[Any]]) -> None:
    """Ask again while the device still has a reported holder."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await desired()
            except REFUSALS:
                await asyncio.sleep(0.1)
            else:
                return


async def none_left(world: World, resource: Any, namespace: str = "") -> None:
    pages = world.client.list(resource, namespace)
    for name in [resource.decode(x).metadata.name async for p in pages for x in p.items]:
        await world.until(resource, name, lambda one: one is None, namespace)


@pytest.mark.slow
@pytest.mark.timeout(300 + 4 * STEPS)
async def test_devices_come_back_from_everything_that_befalls_them(
    world: World,
) -> None:
    world.cluster.timing = Timing(retry=1.0)
    luck = random.Random(SEED)
    story = Story(world, luck)
    for name, model in MODELS.items():
        await world.add(name, model)
    permitted = {"permittedHostDevices": {"pciHostDevices": [FOREIGN]}}
    body = {"spec": {"configuration": permitted}}
    await world.client.patch(KUBEVIRTS, "kubevirt", body, "harvester-system")
    before = {name: drivers(node) for name, node in world.nodes.items()}
    try:
        for _ in range(STEPS):
            await story.step()
            await asyncio.sleep(luck.random() * CALM)  # a pause of the story, no wait for a result
            for node in world.nodes.values():
                check(node)
        await give_everything_up(world)
        await none_left(world, VMS, NAMESPACE)
        await none_left(world, INSTANCES, NAMESPACE)
        await none_left(world, served(PCIDeviceClaim))
        for name in VGPUS:
            await world.until(
                served(VGPUDevice),
                name,
                lambda one: not one.status.vgpu_status and one.status.allocation is None,
            )
        await world.until(KUBEVIRTS, "kubevirt", only_foreign, "harvester-system")
        for name, node in world.nodes.items():
            assert not node.holders()
            assert drivers(node) == before[name]
            assert not any(one.configured for one in scan(node.host).vgpus)
    except BaseException as failure:
        failure.add_note(
            f"LANEWAY_SEED={SEED} LANEWAY_CHANGES={STEPS}: " + "; ".join(story.reported)
        )
        raise


def drivers(node: SimNode) -> dict[str, str]:
    return {str(one.address): one.driver for one in scan(node.host).functions}


def only_foreign(kubevirt: Any) -> bool:
    devices = kubevirt.spec.configuration.permitted_host_devices
    return (list(devices.pci_host_devices), [*devices.mediated_devices], [*devices.usb]) == (
        [FOREIGN],
        [],
        [],
    )
