"""The session that every user begins with: one A2, its profiles, one vGPU, another, none.

Typed as with kubectl, on both of NVIDIA's frameworks.
"""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.core.pci import PciAddress
from laneway.core.phrases import short_name
from laneway.host.scan import scan

MANAGE = "/usr/lib/nvidia/sriov-manage"
GPU = "node1-000008000"
A2 = [f"NVIDIA A2-{size}" for size in ("1A", "1B", "1Q", "2A", "2B", "2Q", "4A", "4C", "4Q")]
EIGHT = {"NVIDIA A2-8A", "NVIDIA A2-8C", "NVIDIA A2-8Q"}


class Session:
    """A GPU without virtual functions, and those that will be there."""

    def __init__(self, cluster: Any, host: Any, gpu: str, every: int) -> None:
        self.cluster = cluster
        self.host = host
        self.gpu = gpu
        self.every = every

    async def vgpus(self) -> list[Any]:
        found = await self.cluster.all(VGPUDevice)
        return sorted(
            (one for one in found if self.gpu_of(one) == self.gpu),
            key=lambda one: PciAddress.parse(one.spec.address),
        )

    @staticmethod
    def gpu_of(vgpu: Any) -> str:
        return vgpu.metadata.labels["harvesterhci.io/parentSRIOVGPUDevice"]

    async def all_offer(self, names: list[str], profiles: set[str]) -> list[Any]:
        """Wait until these objects offer just these profiles."""
        return [
            await self.cluster.until(
                VGPUDevice, name, lambda v: set(v.status.available_types) == profiles
            )
            for name in names
        ]


@pytest.fixture(
    params=[
        pytest.param("a2", marks=pytest.mark.realapi),
        "a2-vfio",
        pytest.param("l40s", marks=pytest.mark.slow),
    ]
)
async def session(request, cluster, simulated):
    """Mediated devices, and vendor VFIO."""
    host = simulated(request.param, "node1")
    gpus = [one for one in scan(host).functions if one.sriov_gpu]
    for gpu in gpus:
        assert host.call([MANAGE, "-d", str(gpu.address)]).status == 0
    agent = await cluster.start_agent("node1", host)
    gpu = min(one.address for one in gpus)
    name = f"node1-{str(gpu).replace(':', '').replace('.', '')}"
    yield Session(cluster, host, name, next(one.total_vfs for one in gpus))
    assert agent.restored.is_set()


async def test_the_session(session):
    cluster, host = session.cluster, session.host
    assert await cluster.names(VGPUDevice) == set()

    await cluster.patch(SRIOVGPUDevice, session.gpu, {"spec": {"enabled": True}})
    gpu = await cluster.answer(session.gpu, "Enabled", SRIOVGPUDevice)
    names = list(gpu.status.vgpu_devices)
    assert len(names) == len(gpu.status.vf_addresses) == session.every
    for name in names:
        await cluster.answer(name, "NotConfigured")
    vgpus = await session.vgpus()
    assert [one.metadata.name for one in vgpus] == names
    offered = set(vgpus[0].status.available_types)
    assert all(set(one.status.available_types) == offered for one in vgpus)
    one, other, *rest = names
    eight = next(name for name in offered if name.endswith("-8Q"))
    of_one_size = {name for name in offered if name.endswith(("-8A", "-8C", "-8Q"))}
    assert len(of_one_size) >= 2

    await cluster.ask(one, eight)
    first = await cluster.answer(one, "Configured")
    assert first.status.vgpu_status == "vGPUConfigured"
    assert first.status.configure_vgpu_type_name == eight
    assert first.status.uuid
    assert cluster.carried(host) == {first.spec.address: eight}
    await session.all_offer([other, *rest], of_one_size)

    most = next(k for k, v in {2: "A2", 6: "L40S"}.items() if v in eight)
    for name in (other, *rest[: most - 2]):
        await cluster.ask(name, eight)
        await cluster.answer(name, "Configured")
    left = rest[most - 2 :]
    full = await session.all_offer(left, set())
    assert len(cluster.carried(host)) == most
    for vgpu in full:
        assert (
            f"None can be configured: The GPU has {short_name(eight)}={most}."
            in cluster.message(vgpu)
        )

    await cluster.ask(left[0], eight)
    refused = await cluster.answer(left[0], "ProfileExhausted")
    short = short_name(eight)
    full = f"no room for another {short} (an empty GPU has room for {most}): it has {short}={most}."
    assert full in cluster.message(refused)
    await cluster.disable(left[0])

    for name in names:
        await cluster.disable(name)
    await session.all_offer(names, offered)
    assert cluster.carried(host) == {}

    await cluster.patch(SRIOVGPUDevice, session.gpu, {"spec": {"enabled": False}})
    await cluster.answer(session.gpu, "Disabled", SRIOVGPUDevice)
    await cluster.until(VGPUDevice, names[-1], lambda vgpu: vgpu is None)


async def test_an_a2_offers_what_harvester_users_know(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    one, other, *rest = sorted(await cluster.names(VGPUDevice))
    vgpu = await cluster.get(VGPUDevice, one)
    offered = set(vgpu.status.available_types)
    assert offered >= {*A2, *EIGHT, "NVIDIA A2-16Q"}
    assert vgpu.status.available_types["NVIDIA A2-8Q"].startswith("nvidia-")

    await cluster.ask(one, "NVIDIA A2-8Q")
    await cluster.answer(one, "Configured")
    for name in (other, *rest):
        await cluster.until(VGPUDevice, name, lambda v: set(v.status.available_types) == EIGHT)


async def test_four_fill_the_card_and_a_fifth_is_refused_with_the_reason(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    names = sorted(await cluster.names(VGPUDevice))
    for name in names[:5]:
        await cluster.ask(name, "NVIDIA A2-4Q")

    for name in names[:4]:
        await cluster.answer(name, "Configured")
    fifth = await cluster.answer(names[4], "ProfileExhausted")

    words = "no room for another A2-4Q (an empty GPU has room for 4): it has A2-4Q=4."
    assert words in cluster.message(fifth)
    assert len(cluster.carried(host)) == 4
    await cluster.disable(names[1])
    await cluster.answer(names[4], "Configured")
    assert len(cluster.carried(host)) == 4


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_real_server_is_adopted_without_a_write(cluster, simulated, a2_dump_path):
    host = simulated(str(a2_dump_path), "node1")
    before = cluster.carried(host)
    assert len(before) == 3

    agent = await cluster.start_agent("node1", host)
    await agent.restored.wait()
    await cluster.quiet(agent)

    assert host.faults.count == 0
    assert cluster.carried(host) == before
    adopted = [one for one in await cluster.all(VGPUDevice) if one.spec.enabled]
    assert {one.spec.address: one.spec.vgpu_type_name for one in adopted} == before
    assert all(cluster.reason(one) == "Configured" for one in adopted)
    gpu = await cluster.get(SRIOVGPUDevice, "node1-000008000")
    assert gpu.spec.enabled
    assert cluster.reason(gpu) == "Enabled"
    assert gpu.status.configured == {f"NVIDIA A2-4{series}": 1 for series in "ACQ"}
