"""From a claim to a machine and back: real drivers, real agents, and a QEMU that has the device.

QEMU stands for the program in a virtual machine's pod: it opens what the environment names that
the kubelet got from Laneway's device plugin. There is no KubeVirt, so nothing needs a permit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.api import (
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    find_condition,
)
from laneway.api.fields import API_VERSION
from laneway.kube.pods import PODS
from laneway.kube.resource import served
from support.guests import Guest, Objects

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PCI = "/sys/bus/pci/devices"
GPU, AUDIO = "0000:09:00.0", "0000:09:00.1"
"""One card in one IOMMU group."""
VF = "0000:08:00.4"
"""Of another card."""
PROFILE, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"

Story = Callable[[Guest], Awaitable[None]]


class Machine:
    """A virtual machine of a node: its pod, and the QEMU in that."""

    def __init__(self, guest: Guest, objects: Objects, name: str) -> None:
        self.guest = guest
        self.name = name
        self._client = objects.client
        self._pod = f"virt-launcher-{name}-{guest.name}"
        self._uid = ""

    async def start(self, resources: list[str], model: str) -> dict[str, str]:
        """Have the kubelet admit it, and run; the environment that it was given."""
        limits = dict.fromkeys(resources, 1)
        container = {
            "name": "compute",
            "image": "x",
            "resources": {"limits": dict.fromkeys(limits, "1")},
        }
        labels = {
            "kubevirt.io": "virt-launcher",
            "kubevirt.io/created-by": f"uid-of-{self.name}",
            "vm.kubevirt.io/name": self.name,
        }
        pod = await self._client.create(
            PODS,
            {
                "metadata": {"name": self._pod, "labels": labels},
                "spec": {"nodeName": self.guest.name, "containers": [container]},
            },
            "default",
        )
        self._uid = pod.metadata.uid
        reported = await self.guest.kubelet(
            admit={
                "uid": self._uid,
                "namespace": "default",
                "name": self._pod,
                "containers": {"compute": limits},
            }
        )
        assert "compute" in reported, reported
        environment: dict[str, str] = reported["compute"]
        await self.guest.start_machine(self.name, [*map(in_qemu, environment.items())], model)
        return environment

    async def end(self) -> None:
        """Shut down: QEMU ends, then the pod, then the kubelet forgets it."""
        await self.guest.end_machine(self.name)
        await self.guest.kubelet(remove=self._uid)
        await self._client.delete(PODS, self._pod, "default", grace_seconds=0)


def in_qemu(variable: tuple[str, str]) -> str:
    """What QEMU calls the device of a variable."""
    name, value = variable
    if name.startswith("MDEV_PCI_RESOURCE_"):
        return f"sysfsdev=/sys/bus/mdev/devices/{value}"
    assert name.startswith("PCI_RESOURCE_"), variable
    return f"host={value}"


@pytest.fixture
def everywhere(nodes: list[Guest]) -> Callable[[Story], Awaitable[None]]:
    """Runs a story on all nodes at once."""

    async def one(guest: Guest, story: Story) -> None:
        try:
            await story(guest)
        except BaseException as error:
            error.add_note(f"on {guest.name}")
            raise

    async def run(story: Story) -> None:
        async with asyncio.TaskGroup() as tasks:
            for guest in nodes:
                tasks.create_task(one(guest, story))

    return run


def named(guest: Guest, address: str) -> str:
    return f"{guest.name}-{address.replace(':', '').replace('.', '')}"


def says(kind: str, status: str, reason: str = "") -> Callable[[Any], bool]:
    """Whether an object's condition is so."""

    def holds(obj: Any) -> bool:
        found = obj and find_condition(obj.status.conditions, kind)
        return bool(found and found.status == status and reason in (found.reason, ""))

    return holds


def refused(machine: str) -> Callable[[Any], bool]:
    """Whether an object says that a machine keeps what it asks to be taken away."""

    def holds(obj: Any) -> bool:
        found = find_condition(obj.status.conditions, "Ready")
        return bool(found and found.status == "False" and machine in found.message)

    return holds


class Card:
    """A whole card with two functions, which a machine gets by claims."""

    def __init__(self, guest: Guest, objects: Objects) -> None:
        self._guest = guest
        self._objects = objects
        self._claims = [named(guest, address) for address in (GPU, AUDIO)]
        self._machine = Machine(guest, objects, "passed")
        self._resources: list[str] = []
        self._before: list[str] = []

    async def offer(self) -> None:
        self._before = await self._drivers()
        for address, name in zip((GPU, AUDIO), self._claims, strict=True):
            body = {
                "apiVersion": API_VERSION,
                "kind": "PCIDeviceClaim",
                "metadata": {"name": name},
                "spec": {"address": address, "nodeName": self._guest.name, "userName": ""},
            }
            await self._objects.client.create(served(PCIDeviceClaim), body)
        claims = [await self._until(name, says("Advertised", "True")) for name in self._claims]
        assert all(claim.status.passthrough_enabled for claim in claims)
        assert await self._drivers() == ["vfio-pci"] * 2
        self._resources = [claim.status.resource_name for claim in claims]
        await self.allocatable(1)

    async def start(self) -> None:
        environment = await self._machine.start(self._resources, "10de:1b80")
        assert sorted(environment.values()) == [GPU, AUDIO]
        for name in self._claims:
            await self._until(name, lambda claim: claim.status.allocation)

    async def take_away(self) -> None:
        """No other machine gets it, and the machine keeps it."""
        for name in self._claims:
            await self._objects.client.delete(served(PCIDeviceClaim), name)
        for name in self._claims:
            claim = await self._until(name, refused("passed"))
            assert claim.metadata.deletion_timestamp
            assert claim.status.allocation.virtual_machine == "passed"
        await self.allocatable(0)
        assert await self._drivers() == ["vfio-pci"] * 2

    async def end(self) -> None:
        """It goes back to its drivers by itself."""
        await self._machine.end()
        for name in self._claims:
            await self._until(name, lambda claim: claim is None)
        assert await self._drivers() == self._before

    async def allocatable(self, count: int) -> None:
        for resource in self._resources:
            await self._guest.allocatable(resource, count)

    async def _until(self, name: str, holds: Callable[[Any], bool]) -> Any:
        return await self._objects.until(PCIDeviceClaim, name, holds)

    async def _drivers(self) -> list[str]:
        each = f"for f in {GPU} {AUDIO}; do basename $(readlink $f/driver || echo none); done"
        return (await self._guest.run(f"cd {PCI}; {each}")).split()


class Vgpu:
    """A part of another card, which a machine gets by a desired state."""

    def __init__(self, guest: Guest, objects: Objects) -> None:
        self._guest = guest
        self._objects = objects
        self._gpu, self._name = named(guest, "0000:08:00.0"), named(guest, VF)
        self._machine = Machine(guest, objects, "shared")
        self._uuid = ""

    async def offer(self) -> None:
        await self._objects.patch(SRIOVGPUDevice, self._gpu, {"enabled": True})
        await self._until(bool)
        await self._desired(enabled=True, vGPUTypeName=PROFILE)
        made = await self._until(says("Advertised", "True"))
        self._uuid = made.status.uuid
        await self.allocatable(1)

    async def start(self) -> None:
        environment = await self._machine.start([RESOURCE], "10de:25b6")
        of_function = self._guest.framework == "vendor"
        assert list(environment.values()) == [VF if of_function else self._uuid]
        await self._until(lambda vgpu: vgpu.status.allocation)

    async def take_away(self) -> None:
        """No other machine gets it, and the machine keeps it."""
        await self._desired(enabled=False)
        kept = await self._until(refused("shared"))
        assert kept.status.uuid == self._uuid
        await self.allocatable(0)

    async def end(self) -> None:
        """It is gone, and its card is as it was."""
        await self._machine.end()
        await self._until(says("Ready", "True", "NotConfigured"))
        await self._objects.patch(SRIOVGPUDevice, self._gpu, {"enabled": False})
        await self._until(lambda vgpu: vgpu is None)

    async def allocatable(self, count: int) -> None:
        await self._guest.allocatable(RESOURCE, count)

    async def _desired(self, **spec: Any) -> None:
        await self._objects.patch(VGPUDevice, self._name, spec)

    async def _until(self, holds: Callable[[Any], bool]) -> Any:
        return await self._objects.until(VGPUDevice, self._name, holds)


async def test_machines_keep_what_they_have_until_they_end(everywhere, objects):
    async def story(guest: Guest) -> None:
        devices = [Card(guest, objects), Vgpu(guest, objects)]
        for device in devices:
            await device.offer()
        for device in devices:
            await device.start()

        await guest.kill_agent()
        await run_on(guest)
        await guest.start_agent()
        for device in devices:
            await device.allocatable(1)

        for device in devices:
            await device.take_away()
        await run_on(guest)
        for device in devices:
            await device.end()

    async def run_on(guest: Guest) -> None:
        for name in ("passed", "shared"):
            assert await guest.machine_runs(name)

    await everywhere(story)
