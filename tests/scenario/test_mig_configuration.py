"""GPU instances by MigConfiguration: made, changed and taken away, and what is never done."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice
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
        """Somebody changes instances by hand."""
        call(self.host, SMI, "mig", "-i", self.address, *words)

    async def spots(self) -> list[tuple[str, int, int]]:
        """What there is: profile, placement, compute instances."""
        modes = await read_modes(self.host, PciAddress.parse(self.address))
        return [(one.profile, one.start, one.compute_instances) for one in modes.instances]

    async def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, _, computes in await self.spots():
            assert computes == 1
            found[name] = found.get(name, 0) + 1
        return found

    async def look(self, agent: Any) -> None:
        """Have the agent see what was changed by hand."""
        await agent._observer.rescan(PciAddress.parse(self.address))

    async def get(self) -> Any:
        return await self.cluster.get(MigConfiguration, self.name)

    async def there(self) -> Any:
        return await self.cluster.until(MigConfiguration, self.name, lambda one: one is not None)

    async def request(self, *, enabled: bool = True, **counts: int) -> None:
        """Wish for these instances, `m1g_5gb=2`, and for no others."""
        named = {key[1:].replace("_", ".", 1): count for key, count in counts.items()}
        await self.ask({name: count for name, count in named.items()}, enabled=enabled)

    async def ask(self, counts: dict[str, int], *, enabled: bool = True) -> None:
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


@pytest.fixture
def divided(cluster: Any, simulated: Any) -> Any:
    """A host whose first GPU is in MIG mode, with its virtual functions or without."""

    def make(model: str = "a100", *, functions: bool = True) -> Gpu:
        host = simulated(model, "node1")
        gpu = Gpu(cluster, host)
        call(host, MANAGE, "-d", gpu.address)
        call(host, SMI, "-i", gpu.address, "-mig", "1")
        if functions:
            call(host, MANAGE, "-e", gpu.address)
        return gpu

    return make


FIRST = {
    "a100": ({"3g.20gb": 1, "1g.5gb": 4}, {"7g.40gb": 1}, {"1g.10gb": 4}),
    "hgx-h100": ({"3g.40gb": 1, "1g.10gb": 4}, {"2g.20gb": 3, "1g.10gb": 1}, {"7g.80gb": 1}),
    "rtx-pro-6000": ({"1g.24gb+gfx": 4}, {"2g.48gb+gfx": 1, "1g.24gb": 2}, {"4g.96gb+gfx": 1}),
}

# ---------------------------------------------------------------------------- the whole story


@pytest.mark.parametrize("model", sorted(FIRST))
async def test_from_nothing_to_one_set_after_the_other_and_back(cluster, divided, model):
    gpu = divided(model)
    await cluster.start_agent("node1", gpu.host)

    stored = await gpu.there()
    assert not stored.spec.enabled
    assert stored.spec.gpu_address == gpu.address
    assert stored.spec.node_name == "node1"
    assert stored.metadata.labels["nodename"] == "node1"
    (owner,) = stored.metadata.owner_references
    assert (owner.kind, owner.name) == ("SRIOVGPUDevice", gpu.name)
    assert owner.uid == (await cluster.get(SRIOVGPUDevice, gpu.name)).metadata.uid
    assert all(one.name.startswith("MIG ") for one in stored.spec.profile_spec)
    assert not any(one.requested for one in stored.spec.profile_spec)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"

    for counts in FIRST[model]:
        await gpu.ask(counts)
        stored = await gpu.answer("Synced")
        assert stored.status.status == "synced"
        assert not stored.status.message
        assert await gpu.counts() == counts
        told = {one.name[4:]: one for one in stored.status.profile_status}
        assert {name: len(one.vgpu_ids) for name, one in told.items() if one.vgpu_ids} == counts
        assert all(one.available == 0 for one in told.values() if one.name[4:] in counts)

    await gpu.enable(False)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"
    assert await gpu.spots() == []
    assert all(one.available == one.total for one in stored.status.profile_status)
