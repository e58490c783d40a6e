"""Desired states that exclude each other: each ends in words, and then there are no more writes.

Agents try again at once here, so that a fight that goes on shows as requests that do not end.
"""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, VGPULayout
from laneway.controllers.timing import Timing
from laneway.kube.resource import served
from laneway.sim.host import SimulatedHost
from support.examples import first

GPU, VF = "node1-000017000", "node1-000017004"
SLICED, BACKED = "GRID A100-4C", "GRID A100-1-5C"
INSTANCE = "MIG 1g.5gb"


@pytest.fixture(autouse=True)
def impatient(cluster: Any) -> None:
    cluster.timing = Timing(retry=0.001, put_back=0.01, sum=0.01)


async def make(cluster: Any, mode: str, *vgpus: tuple[str, int]) -> None:
    """A layout for the first GPU."""
    body = {
        "apiVersion": served(VGPULayout).api_version,
        "kind": "VGPULayout",
        "metadata": {"name": "all"},
        "spec": {
            "gpuSelector": {"names": [GPU]},
            "mode": mode,
            "vgpus": [{"profile": profile, "count": count} for profile, count in vgpus],
        },
    }
    await cluster.client.create(served(VGPULayout), body)


async def desired(cluster: Any, cls: type[Any], name: str = GPU, **spec: Any) -> None:
    await cluster.patch(cls, name, {"spec": spec})


async def not_before(cluster: Any, agent: Any, host: SimulatedHost, requests: list[Any]) -> None:
    """Whatever is looked at once more, nothing is written, to hardware or objects."""
    for _ in range(3):
        await cluster.quiet(agent)
    requests.clear()
    writes = host.faults.count
    for _ in range(3):
        await agent.observer.rescan()
        await cluster.quiet(agent)
    assert requests == []
    assert host.faults.count == writes


AGAINST_SLICED: dict[str, tuple[type[Any], str, dict[str, Any]]] = {
    "a mode": (SRIOVGPUDevice, GPU, {"mode": "MIGBacked"}),
    "no functions": (SRIOVGPUDevice, GPU, {"enabled": False, "mode": "Passthrough"}),
    "another profile": (VGPUDevice, VF, {"vGPUTypeName": "GRID A100-8C"}),
    "no vGPU": (VGPUDevice, VF, {"enabled": False}),
}


@pytest.mark.slow
@pytest.mark.parametrize("fight", first(*AGAINST_SLICED.values()), ids=AGAINST_SLICED)
async def test_a_layout_has_the_last_word_against_a_person(
    cluster: Any, simulated: Any, requests: list[Any], fight: tuple[Any, str, dict[str, Any]]
) -> None:
    cls, name, spec = fight
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "SameSize", (SLICED, 2))
    await cluster.answer("all", "Done", VGPULayout)
    before = (await cluster.get(cls, name)).spec

    await desired(cluster, cls, name, **spec)

    await cluster.until(cls, name, lambda one: one.spec == before and cluster.reason(one) != "")
    await cluster.answer("all", "Done", VGPULayout)
    await not_before(cluster, agent, host, requests)
    assert list(cluster.carried(host).values()) == [SLICED, SLICED]


@pytest.mark.slow
@pytest.mark.parametrize("spec", first({"enabled": False}, {"profileSpec": []}))
async def test_a_layout_has_the_last_word_about_gpu_instances(
    cluster: Any, simulated: Any, requests: list[Any], spec: dict[str, Any]
) -> None:
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "MIGBacked", (BACKED, 2))
    await cluster.answer("all", "Done", VGPULayout)

    await desired(cluster, MigConfiguration, **spec)

    await cluster.until(
        MigConfiguration,
        GPU,
        lambda one: one.spec.enabled and sum(p.requested for p in one.spec.profile_spec) == 2,
    )
    await cluster.answer("all", "Done", VGPULayout)
    await not_before(cluster, agent, host, requests)
    assert list(cluster.carried(host).values()) == [BACKED, BACKED]


@pytest.mark.slow
@pytest.mark.parametrize("mode", first("SameSize", "MixedSize", "Passthrough"))
async def test_gpu_instances_are_desired_of_a_gpu_that_is_to_have_none(
    cluster: Any, simulated: Any, requests: list[Any], mode: str
) -> None:
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, SRIOVGPUDevice, mode="MIGBacked", enabled=True)
    stored = await cluster.answer(GPU, "Disabled", MigConfiguration)
    profiles = [
        {"name": one.name, "id": one.id, "requested": int(one.name == INSTANCE)}
        for one in stored.spec.profile_spec
    ]
    await desired(cluster, MigConfiguration, enabled=True, profileSpec=profiles)
    await cluster.answer(GPU, "Synced", MigConfiguration)

    await desired(cluster, SRIOVGPUDevice, mode=mode, enabled=mode != "Passthrough")

    gpu = await cluster.answer(GPU, "MigConfigurationEnabled", SRIOVGPUDevice)
    assert "MigConfiguration" in cluster.message(gpu)
    await not_before(cluster, agent, host, requests)
