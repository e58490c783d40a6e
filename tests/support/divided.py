"""GPUs in MIG mode on simulated hosts, as nvidia-smi and their objects show them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from laneway.api import MigConfiguration, VGPUDevice
from laneway.core.pci import PciAddress
from laneway.host.nvidia.modes import read_modes
from laneway.host.scan import scan

SMI = "nvidia-smi"
MANAGE = "/usr/lib/nvidia/sriov-manage"


def gpus_of(host: Any) -> list[str]:
    return [str(f.address) for f in scan(host).functions if f.sriov_gpu]


def call(host: Any, *words: str) -> Any:
    done = host.call(list(words))
    assert done.status == 0, done
    return done


def object_of(address: str) -> str:
    return "node1-" + address.replace(":", "").replace(".", "")


class Gpu:
    """The first GPU of a host, as nvidia-smi and its object show it."""

    def __init__(self, cluster: Any, host: Any) -> None:
        self.cluster = cluster
        self.host = host
        self.address = gpus_of(host)[0]
        self.name = object_of(self.address)

    def mig(self, *words: str) -> None:
        """An administrator changes instances by hand."""
        call(self.host, SMI, "mig", "-i", self.address, *words)

    async def spots(self) -> list[tuple[str, int, int]]:
        """What there is: profile, placement, compute instances."""
        modes = await read_modes(self.host, PciAddress.parse(self.address))
        return [(one.profile, one.start, one.compute_instances) for one in modes.instances]

    async def ids(self) -> list[int]:
        modes = await read_modes(self.host, PciAddress.parse(self.address))
        return [one.id for one in modes.instances]

    async def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, _, computes in await self.spots():
            assert computes == 1
            found[name] = found.get(name, 0) + 1
        return found

    async def look(self, agent: Any) -> None:
        """Have the agent see what was changed by hand."""
        await agent.observer.rescan(PciAddress.parse(self.address))

    async def get(self) -> Any:
        return await self.cluster.get(MigConfiguration, self.name)

    async def there(self) -> Any:
        return await self.cluster.until(MigConfiguration, self.name, lambda one: one is not None)

    async def ask(self, counts: dict[str, int], *, enabled: bool = True) -> None:
        """Desired state for these instances and for no others."""
        stored = await self.there()
        profiles = [
            {
                "name": one.name,
                "id": one.id,
                "requested": counts.get(one.name.removeprefix("MIG "), 0),
            }
            for one in stored.spec.profile_spec
        ]
        assert {name for name, count in counts.items() if count} <= {
            one["name"].removeprefix("MIG ") for one in profiles
        }
        spec = {"enabled": enabled, "profileSpec": profiles}
        await self.cluster.patch(MigConfiguration, self.name, {"spec": spec})

    async def enable(self, enabled: bool) -> None:
        await self.cluster.patch(MigConfiguration, self.name, {"spec": {"enabled": enabled}})

    async def answer(self, reason: str) -> Any:
        return await self.cluster.answer(self.name, reason, MigConfiguration)

    async def refused(self, reason: str) -> str:
        found = await self.answer(reason)
        assert found.status.status == "out-of-sync"
        assert found.status.message == self.cluster.message(found)
        return found.status.message


TWO = [{"name": "MIG 1g.5gb", "id": 19, "requested": 2}]


def written(name: str, **spec: Any) -> dict[str, Any]:
    """An object as other clients write it."""
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "MigConfiguration",
        "metadata": {"name": name},
        "spec": spec,
    }


def divider(cluster: Any, simulated: Any) -> Any:
    """Makes hosts whose first GPU is in MIG mode, with its virtual functions or without."""

    def make(model: str = "a100", *, functions: bool = True, made_by: Any = simulated) -> Gpu:
        host = made_by(model, "node1")
        gpu = Gpu(cluster, host)
        call(host, MANAGE, "-d", gpu.address)
        call(host, SMI, "-i", gpu.address, "-mig", "1")
        if functions:
            call(host, MANAGE, "-e", gpu.address)
        return gpu

    return make


async def offering(cluster: Any, gpu: Gpu, profile: str) -> str:
    """The first function of the GPU that offers a profile."""
    async with asyncio.timeout(20):
        while True:
            for vgpu in sorted(await cluster.all(VGPUDevice), key=lambda v: v.metadata.name):
                parent = vgpu.spec.parent_gpu_device_address
                if parent == gpu.address and profile in vgpu.status.available_types:
                    return vgpu.metadata.name
            await asyncio.sleep(0.05)


async def dies_before(agent: Any, event: Coroutine[Any, Any, Any]) -> bool:
    """Whether a fault of its host kills an agent before something happens."""
    task = asyncio.create_task(event)
    await asyncio.wait({task, agent.task}, return_when=asyncio.FIRST_COMPLETED)
    died = not task.done()
    task.cancel()
    return died


FIRST = {
    "a100": ({"3g.20gb": 1, "1g.5gb": 4}, {"7g.40gb": 1}, {"1g.10gb": 4}),
    "hgx-h100": ({"3g.40gb": 1, "1g.10gb": 4}, {"2g.20gb": 3, "1g.10gb": 1}, {"7g.80gb": 1}),
    "rtx-pro-6000": ({"1g.24gb+gfx": 4}, {"2g.48gb+gfx": 1, "1g.24gb": 2}, {"4g.96gb+gfx": 1}),
}
