"""The life of vGPUs on nodes with real kernels, by their objects alone.

Each test tells one story on all nodes at once, from a GPU without virtual functions to one without
again: one node per framework of NVIDIA's driver, each with a kernel of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from laneway.api import SRIOVGPUDevice, VGPUDevice, VGPULayout, find_condition
from laneway.api.fields import API_VERSION
from laneway.core.pci import PciAddress
from laneway.kube.resource import served
from support.guests import Guest, Objects

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PCI = "/sys/bus/pci/devices"
GPU = "0000:08:00.0"
SLOW = "/sys/module/simgpu/parameters/slow_ms"
"""Milliseconds that the driver takes for each virtual function and each vGPU."""
VFS = [str(PciAddress(0, 8, n // 8, n % 8)) for n in range(4, 20)]
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
SIZE_8 = {Q8, "NVIDIA A2-8A", "NVIDIA A2-8C"}
TYPES = {Q4: "746", Q8: "747"}


class Node:
    """One node as its user sees it: its GPU, and vGPUs by number."""

    def __init__(self, guest: Guest, objects: Objects) -> None:
        self.guest = guest
        self.objects = objects
        self.gpu = f"{guest.name}-000008000"
        self.vgpus = [f"{guest.name}-000008{vf[8:10]}{vf[11]}" for vf in VFS]

    async def answered(self, cls: type, name: str, reason: str) -> tuple[object, str]:
        """Wait for the answer to the present desired state; the object, and what it says."""

        def holds(obj: object) -> bool:
            condition = obj and find_condition(obj.status.conditions, "Ready")
            return bool(
                condition
                and condition.reason == reason
                and condition.observed_generation == obj.metadata.generation
            )

        found = await self.objects.until(cls, name, holds)
        return found, find_condition(found.status.conditions, "Ready").message

    async def enable(self) -> SRIOVGPUDevice:
        """Have virtual functions, each with an object."""
        await self.objects.patch(SRIOVGPUDevice, self.gpu, {"enabled": True})
        return await self.enabled()

    async def enabled(self) -> SRIOVGPUDevice:
        gpu, _ = await self.answered(SRIOVGPUDevice, self.gpu, "Enabled")
        assert list(gpu.status.vf_addresses) == VFS
        for name in self.vgpus:
            await self.objects.until(VGPUDevice, name, bool)
        return gpu

    async def disable(self) -> None:
        """Have none."""
        await self.objects.patch(SRIOVGPUDevice, self.gpu, {"enabled": False})
        gpu, _ = await self.answered(SRIOVGPUDevice, self.gpu, "Disabled")
        assert list(gpu.status.vf_addresses) == []
        assert list(gpu.status.vgpu_devices) == []
        for name in self.vgpus:
            await self.objects.until(VGPUDevice, name, lambda obj: obj is None)
        assert await self.carried() == []
        assert await self.guest.run(f"cat {PCI}/{GPU}/sriov_numvfs") == "0"

    async def leave(self, *numbers: int) -> None:
        """Take everything back: these vGPUs, then the virtual functions."""
        for number in numbers:
            await self.withdraw(number)
        for number in numbers:
            await self.answered(VGPUDevice, self.vgpus[number], "NotConfigured")
        await self.disable()

    async def ask(self, number: int, profile: str) -> None:
        desired = {"enabled": True, "vGPUTypeName": profile}
        await self.objects.patch(VGPUDevice, self.vgpus[number], desired)

    async def make(self, number: int, profile: str) -> VGPUDevice:
        """Have a vGPU."""
        await self.ask(number, profile)
        return await self.made(number, profile)

    async def made(self, number: int, profile: str) -> VGPUDevice:
        vgpu, _ = await self.answered(VGPUDevice, self.vgpus[number], "Configured")
        assert vgpu.status.configure_vgpu_type_name == profile
        assert vgpu.status.vgpu_status == "vGPUConfigured"
        return vgpu

    async def withdraw(self, number: int) -> None:
        await self.objects.patch(VGPUDevice, self.vgpus[number], {"enabled": False})

    async def offered(self, numbers: range, profiles: set[str]) -> None:
        """Wait until these vGPUs offer just that."""
        for number in numbers:
            await self.objects.until(
                VGPUDevice,
                self.vgpus[number],
                lambda vgpu: vgpu and set(vgpu.status.available_types) == profiles,
            )

    async def carried(self) -> list[str]:
        """What the kernel says: each function with a vGPU, and the vGPU's type or UUID."""
        return (await self.guest.run(self._carried)).split()

    @property
    def _carried(self) -> str:
        if self.guest.framework == "mdev":
            return f"cd {PCI}; ls -d 0000:08:*/*-*-*-*-*/ 2>/dev/null; true"
        return f"cd {PCI}; grep -vx 0 0000:08:*/nvidia/current_vgpu_type 2>/dev/null; true"

    @property
    def count(self) -> str:
        """A bash command that says how many that are."""
        return f"({self._carried}) | wc -l"

    def line(self, number: int, profile: str, uuid: str) -> str:
        """How a vGPU is named there."""
        if self.guest.framework == "mdev":
            return f"{VFS[number]}/{uuid}/"
        return f"{VFS[number]}/nvidia/current_vgpu_type:{TYPES[profile]}"

    async def by_hand(self, number: int, profile: str, uuid: str) -> None:
        """Make a vGPU as an administrator does who knows nothing of Laneway."""
        home, kind = f"{PCI}/{VFS[number]}", TYPES[profile]
        if self.guest.framework == "mdev":
            await self.guest.write(f"{home}/mdev_supported_types/nvidia-{kind}/create", uuid)
        else:
            await self.guest.write(f"{home}/nvidia/current_vgpu_type", kind)


@pytest.fixture
def everywhere(
    nodes: list[Guest], objects: Objects
) -> Callable[[Callable[[Node], Awaitable[None]]], Awaitable[None]]:
    """Runs a story on all nodes at once."""

    async def one(guest: Guest, story: Callable[[Node], Awaitable[None]]) -> None:
        try:
            await story(Node(guest, objects))
        except BaseException as error:
            error.add_note(f"on {guest.name}")
            raise

    async def run(story: Callable[[Node], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for guest in nodes:
                tasks.create_task(one(guest, story))

    return run


async def test_from_a_bare_gpu_to_two_vgpus_and_back(everywhere):
    async def story(node: Node) -> None:
        await node.objects.until(SRIOVGPUDevice, node.gpu, bool)
        gpu = await node.enable()
        assert list(gpu.status.vgpu_devices) == node.vgpus
        first = await node.objects.get(VGPUDevice, node.vgpus[0])
        assert {"NVIDIA A2-2Q", Q4, *SIZE_8, "NVIDIA A2-16C"} <= set(first.status.available_types)

        made = [await node.make(0, Q8)]
        await node.offered(range(1, 16), SIZE_8)
        made.append(await node.make(1, Q8))
        await node.offered(range(2, 16), set())
        assert await node.carried() == [
            node.line(number, Q8, vgpu.status.uuid) for number, vgpu in enumerate(made)
        ]

        await node.leave(0, 1)

    await everywhere(story)


async def test_four_fill_the_card_and_the_fifth_is_refused(everywhere):
    async def story(node: Node) -> None:
        await node.enable()
        for number in range(4):
            await node.ask(number, Q4)
        for number in range(4):
            await node.made(number, Q4)

        await node.ask(4, Q4)

        vgpu, words = await node.answered(VGPUDevice, node.vgpus[4], "ProfileExhausted")
        assert "A2-4Q=4" in words  # what keeps the fifth out
        assert vgpu.status.available_types == {}
        assert [line.split("/")[0] for line in await node.carried()] == VFS[:4]
        await node.leave(4, 0, 1, 2, 3)

    await everywhere(story)


async def test_one_layout_divides_all_gpus(everywhere, objects):
    async def story(node: Node) -> None:
        await objects.until(VGPULayout, "all", lambda layout: entry(layout, node.gpu) == "Done")
        assert [line.split("/")[0] for line in await node.carried()] == VFS[:4]

    async def undivided(node: Node) -> None:
        await objects.until(VGPULayout, "all", lambda layout: entry(layout, node.gpu) == "Done")
        assert await node.carried() == []

    def entry(layout: VGPULayout, gpu: str) -> str:
        current = layout.metadata.generation
        return next(
            (
                one.state
                for one in layout.status.gpus
                if one.name == gpu and one.observed_generation == current
            ),
            "",
        )

    vgpus = [{"profile": Q4, "count": 4}]
    body = {
        "apiVersion": API_VERSION,
        "kind": "VGPULayout",
        "metadata": {"name": "all"},
        "spec": {"vgpus": vgpus},
    }
    await objects.client.create(served(VGPULayout), body)
    await everywhere(story)
    await objects.until(VGPULayout, "all", lambda layout: layout.status.summary == "2 of 2")

    await objects.patch(VGPULayout, "all", {"vgpus": []})
    await everywhere(undivided)
    await objects.client.delete(served(VGPULayout), "all")
    await everywhere(Node.disable)


async def test_what_another_makes_shows_up_and_what_is_held_stays(everywhere):
    uuid = "d3b5a1d8-9d8f-4f0c-8a52-111111111111"

    async def story(node: Node) -> None:
        await node.enable()
        await node.by_hand(0, Q8, uuid)

        vgpu, _ = await node.answered(VGPUDevice, node.vgpus[0], "UnmanagedVgpu")
        assert vgpu.status.configure_vgpu_type_name == Q8
        await node.offered(range(1, 16), SIZE_8)

        # Taken over by a desired state, then held by a process as a virtual machine holds it.
        await node.make(0, Q8)
        pid = await node.guest.hold(uuid if node.guest.framework == "mdev" else VFS[0])
        await node.withdraw(0)

        _, words = await node.answered(VGPUDevice, node.vgpus[0], "DeviceInUse")
        assert f" {pid} " in words or f" {pid})" in words
        assert await node.carried() == [node.line(0, Q8, uuid)]
        await node.guest.run(f"kill {pid}")
        # No event tells of a holder that went; the next look is half a minute away.
        await node.make(0, Q8)
        await node.leave(0)

    await everywhere(story)


async def test_an_agent_that_is_killed_on_the_way_ends_as_desired(everywhere):
    async def story(node: Node) -> None:
        guest = node.guest
        await guest.write(SLOW, "500")
        await node.objects.patch(SRIOVGPUDevice, node.gpu, {"enabled": True})
        await guest.until(f"[[ -e {PCI}/{VFS[1]}/driver ]]")
        await guest.kill_agent()
        await guest.write(SLOW, "0")

        await guest.start_agent()

        await node.enabled()
        await node.leave()

    await everywhere(story)


async def test_after_a_power_cut_in_the_middle_all_comes_back(everywhere):
    async def story(node: Node) -> None:
        guest = node.guest
        await node.enable()
        before = [await node.make(number, Q4) for number in (0, 5)]
        carried = await node.carried()
        await guest.write(SLOW, "60000")
        await node.ask(6, Q4)
        await guest.until("grep -qsE 'msleep|create_vgpu' /proc/[0-9]*/wchan")

        await guest.switch_off()
        await guest.boot()
        assert await guest.run(f"cat {PCI}/{GPU}/sriov_numvfs") == "0"
        await guest.start_agent()

        await guest.until(f"[[ $({node.count}) == 3 ]]")
        assert (await node.carried())[:2] == carried
        await node.enabled()
        after = [await node.made(number, Q4) for number in (0, 5, 6)]
        assert [vgpu.status.uuid for vgpu in after[:2]] == [vgpu.status.uuid for vgpu in before]
        await node.leave(0, 5, 6)

    await everywhere(story)
