"""A simulated node whose agent is killed and which is booted, while machines hold its vGPUs."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from laneway.core import names
from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.vgpu.catalogue import profiles_of
from laneway.host.nvidia.modes import read_modes
from laneway.host.scan import scan
from laneway.host.situation import named
from support.gpu_modes import MANAGE, SMI

IN_AGENT: ContextVar[bool] = ContextVar("IN_AGENT", default=False)
"""Whether a request is an agent's."""


class Node:
    """A simulated node with its agent and its virtual machines."""

    def __init__(self, cluster: Any, name: str, make: Callable[[], Any]) -> None:
        self.cluster = cluster
        self.name = name
        self.make = make
        self.host = make()
        self.boot = str(uuid.uuid4())
        self.agent: Any = None
        self.machines: dict[str, tuple[Any, Any]] = {}
        """By function: the open device, and the vGPU as it was when it was opened."""
        gpu = self.gpus()[0]
        self.profiles = [row.name for row in profiles_of(gpu.device, gpu.subsystem_device)]

    def gpus(self) -> list[PciFunction]:
        return [one for one in scan(self.host).functions if one.sriov_gpu]

    def object(self, address: PciAddress) -> str:
        return names.pci_object_name(self.name, address)

    def vgpus(self) -> tuple[VgpuFunction, ...]:
        inventory = scan(self.host)
        # A full card lists no profile: only the node remembers how that one is called.
        return (named(inventory, self.agent.hardware.state) if self.agent else inventory).vgpus

    def carried(self, gpu: PciAddress) -> Counter[str]:
        """The vGPUs of a GPU, by profile; one whose name nothing tells, by its type id."""
        there = (one.configured for one in self.vgpus() if one.parent == gpu)
        return Counter(one.type_name or one.type_id for one in there if one)

    async def start(self) -> None:
        """Have an agent, whatever becomes of it while it starts."""
        token = IN_AGENT.set(True)
        try:
            self.agent = await self.cluster.start_agent(self.name, self.host, self.boot)
        finally:
            IN_AGENT.reset(token)

    async def restart(self) -> None:
        """The agent is killed, if it does not lie dead already, and started again."""
        await self.cluster.stop_agent(self.agent)
        self.host.faults.clear()
        self.host.restart()
        await self.start()

    async def reboot(self, *, service: bool, mig_stays: bool) -> None:
        """The same cards without what a boot clears; a service may make their functions."""
        await self.cluster.stop_agent(self.agent)
        self.host.restart()
        in_mig = [one for one in self.gpus() if (await read_modes(self.host, one.address)).mig]
        self.machines.clear()
        self.host, self.boot = self.make(), str(uuid.uuid4())
        for gpu in self.gpus():
            self.host.call([MANAGE, "-d", str(gpu.address)])
            if mig_stays and any(one.address == gpu.address for one in in_mig):
                self.host.call([SMI, "-i", str(gpu.address), "-mig", "1"])
            if service:
                self.host.call([MANAGE, "-e", str(gpu.address)])
        await self.start()

    def hold(self, vgpu: VgpuFunction) -> None:
        """A virtual machine starts with a vGPU."""
        assert vgpu.configured is not None
        uuid = vgpu.configured.uuid
        home = f"/sys/bus/mdev/devices/{uuid}" if uuid else f"/sys/bus/pci/devices/{vgpu.address}"
        group = self.host.readlink(f"{home}/iommu_group").rpartition("/")[2]
        held = self.host.hold(f"/dev/vfio/{group}")
        self.machines[str(vgpu.address)] = (held, _identity(vgpu))

    def check_machines(self) -> None:
        """What is held is as it was."""
        there = {str(one.address): _identity(one) for one in self.vgpus()}
        for function, (_, vgpu) in self.machines.items():
            assert there.get(function) == vgpu, f"{self.name}: a held vGPU changed on {function}"


def _identity(vgpu: VgpuFunction) -> tuple[str, str]:
    """What a machine notices. A mediated device tells its placement only once it is used."""
    return (vgpu.configured.type_id, vgpu.configured.uuid) if vgpu.configured else ("", "")
