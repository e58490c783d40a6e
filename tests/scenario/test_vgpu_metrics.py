"""What an agent's metrics say of vGPUs, as a dashboard sees it, and what one costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from laneway.api import VGPUDevice
from support.examples import first

VGPU, SIBLING = "node1-000008004", "node1-000008005"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"


def value(cluster: Any, name: str, **labels: str) -> float | None:
    return cluster.families.registry.get_sample_value(name, {"node": "node1", **labels})


def vgpus(cluster: Any, profile: str) -> tuple[float | None, float | None]:
    """Existing, and desired but missing."""
    states = ("configured", "missing")
    return tuple(value(cluster, "laneway_vgpus", profile=profile, state=one) for one in states)


async def test_vgpus_by_profile_and_what_is_free(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    before = vgpus(cluster, Q4)
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.ask(SIBLING, Q8)
    await cluster.answer(SIBLING, "ProfileExhausted")

    assert before == (None, None)
    assert vgpus(cluster, Q4) == (1, None)
    assert vgpus(cluster, Q8) == (None, 1)
    assert value(cluster, "laneway_vgpus_free", profile=Q4) == 3
    assert value(cluster, "laneway_vgpus_free", profile=Q8) == 0
    # 12 of 16 GiB are free, and in same-size mode the next vGPU has 4.
    assert value(cluster, "laneway_gpu_fragmentation", gpu="0000:08:00.0") == 0.6667
    assert value(cluster, "laneway_node_fragmentation") == 0.6667
    assert value(cluster, "laneway_profile_fragmentation", profile=Q4) == 0
    assert value(cluster, "laneway_profile_fragmentation", profile=Q8) == 1
    assert value(cluster, "laneway_gpu_modes", mode="SameSize") == 1
    assert value(cluster, "laneway_failures_total", reason="ProfileExhausted") == 1
    done = {"operation": "configure-vgpu", "result": "done"}
    assert value(cluster, "laneway_operation_seconds_count", **done) == 1


@pytest.mark.slow
async def test_what_is_no_more_is_none(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.ask(SIBLING, Q8)
    await cluster.answer(SIBLING, "ProfileExhausted")
    vgpus(cluster, Q4)  # as a scrape does

    await cluster.disable(SIBLING)
    await cluster.answer(SIBLING, "NotConfigured")
    await cluster.disable(VGPU)
    await cluster.until(VGPUDevice, SIBLING, lambda one: Q8 in one.status.available_types)

    assert vgpus(cluster, Q4) == (0, None)
    assert vgpus(cluster, Q8) == (None, 0)
    assert value(cluster, "laneway_vgpus_free", profile=Q4) == 4


@pytest.mark.slow
async def test_gpu_instances_by_profile(cluster, simulated):
    """They are hardware's, by whichever client."""
    host = simulated("a100", "node1")
    gpu = "0000:17:00.0"
    for argv in (
        ("/usr/lib/nvidia/sriov-manage", "-d", gpu),
        ("nvidia-smi", "-i", gpu, "-mig", "1"),
        ("nvidia-smi", "mig", "-i", gpu, "-cgi", "19:0"),
    ):
        assert host.call(argv).status == 0

    await cluster.start_agent("node1", host)

    assert value(cluster, "laneway_gpu_instances", profile="1g.5gb") == 1
    assert value(cluster, "laneway_gpu_modes", mode="MIG") == 1


@pytest.mark.slow
@pytest.mark.parametrize("spec", first("l40s", "a2"))
async def test_a_vgpu_costs_no_scan_of_the_whole_host(cluster, simulated, spec):
    agent = await cluster.start_agent("node1", simulated(spec, "node1"))
    first = min(await cluster.all(VGPUDevice), key=lambda one: one.metadata.name)
    await cluster.quiet(agent)
    before = value(cluster, "laneway_scan_seconds_count")

    await cluster.ask(first.metadata.name, min(first.status.available_types))
    await cluster.answer(first.metadata.name, "Configured")
    await cluster.disable(first.metadata.name)
    await cluster.answer(first.metadata.name, "NotConfigured")
    await cluster.quiet(agent)

    assert value(cluster, "laneway_scan_seconds_count") == before


async def test_siblings_whose_lists_stay_are_not_written(cluster, simulated, requests):
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.quiet(agent)
    requests.clear()

    await cluster.ask(SIBLING, Q4)
    await cluster.answer(SIBLING, "Configured")
    await cluster.quiet(agent)

    writes = Counter(path.split("v1beta1/")[-1] for method, path in requests if method != "GET")
    mine = {f"vgpudevices/{SIBLING}", f"vgpudevices/{SIBLING}/status"}
    assert {path for path in writes if path.startswith("vgpudevices")} == mine
    assert writes[f"vgpudevices/{SIBLING}/status"] == 2
