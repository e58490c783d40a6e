"""Desired states of thousands of entries and of endless names: answered in a few words, once."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, VGPULayout, to_builtins
from laneway.kube.resource import served
from support.examples import first

GPU = "node1-000017000"
LONGEST_STATUS = 40_000
"""Of four GPUs, in characters."""
MANY = 4000


async def settled(cluster: Any, agent: Any, requests: list[tuple[str, str]]) -> None:
    """Nothing is asked of the API server any more."""
    await cluster.quiet(agent)
    await cluster.quiet(agent)
    requests.clear()
    await agent.observer.rescan()
    await cluster.quiet(agent)
    assert requests == []


@pytest.mark.slow
@pytest.mark.parametrize("count", first(1, -1))
async def test_thousands_of_gpu_instance_profiles_that_are_none(
    cluster: Any, simulated: Any, requests: list[tuple[str, str]], count: int
) -> None:
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    profiles = [{"name": f"MIG \u202e{n}g", "id": n, "requested": count} for n in range(MANY)]
    body = {
        "apiVersion": served(MigConfiguration).api_version,
        "kind": "MigConfiguration",
        "metadata": {"name": GPU, "labels": {"nodename": "node1"}},
        "spec": {
            "gpuAddress": "0000:17:00.0",
            "nodeName": "node1",
            "enabled": True,
            "profileSpec": profiles,
        },
    }
    await cluster.client.create(served(MigConfiguration), body)

    stored = await cluster.until(
        MigConfiguration,
        GPU,
        lambda one: cluster.reason(one) not in ("not answered yet", "GpuNotReady"),
    )

    assert stored.status.conditions[0].status == "False"
    assert stored.status.message.isprintable()
    assert len(str(to_builtins(stored.status))) < LONGEST_STATUS
    await settled(cluster, agent, requests)


LAYOUTS: dict[str, dict[str, Any]] = {
    "GPUs": {"gpuSelector": {"names": [f"\u202e{n}" * 1000 for n in range(40)]}},
    "profiles": {"vgpus": [{"profile": f"\u202e../{n}", "count": 1} for n in range(MANY)]},
    "one profile": {"vgpus": [{"profile": "GRID A100-4C", "count": 64}] * MANY},
    "a GPU": {"gpuSelector": {"names": ["x" * 200_000]}},
    "nodes": {"nodeSelector": {"names": [f"../{n}" for n in range(MANY)]}},
}


@pytest.mark.slow
@pytest.mark.parametrize("spec", first(*LAYOUTS.values()), ids=LAYOUTS)
async def test_a_layout_of_thousands_of_entries(
    cluster: Any, simulated: Any, requests: list[tuple[str, str]], spec: dict[str, Any]
) -> None:
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    before = host.faults.count
    body = {
        "apiVersion": served(VGPULayout).api_version,
        "kind": "VGPULayout",
        "metadata": {"name": "all"},
        "spec": spec,
    }
    await cluster.client.create(served(VGPULayout), body)

    stored = await cluster.until(
        VGPULayout,
        "all",
        lambda one: (
            cluster.reason(one) in ("Refused", "AgentNotReporting", "NoGpuSelected")
            and (not one.status.gpus or len(one.status.gpus) == 4)
        ),
    )

    assert cluster.message(stored).isprintable()
    assert len(str(to_builtins(stored.status))) < LONGEST_STATUS
    await settled(cluster, agent, requests)
    assert host.faults.count == before
