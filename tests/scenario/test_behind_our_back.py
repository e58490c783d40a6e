"""Hardware that changes without Laneway: the objects follow, and nothing is taken away."""

from __future__ import annotations

import pytest

from laneway.api import VGPUDevice
from laneway.host.scan import scan
from support.examples import first

Q4 = "NVIDIA A2-4Q"
UUID = "6f1a1b7c-2f0e-4f0c-9f3f-0d9b1b1c1d1e"


async def test_a_vgpu_made_on_vendor_vfio_shows_on_its_object_and_all_siblings(cluster, simulated):
    """No event tells of it."""
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    objects = sorted(await cluster.all(VGPUDevice), key=lambda one: one.metadata.name)
    mine, *siblings = (one for one in objects if one.spec.address.startswith("0000:17:"))
    profile = next(name for name in mine.status.available_types if name.endswith("-8Q"))
    path = f"/sys/bus/pci/devices/{mine.spec.address}/nvidia/current_vgpu_type"

    host.write(path, mine.status.available_types[profile])

    shown = await cluster.until(
        VGPUDevice, mine.metadata.name, lambda one: one.status.configure_vgpu_type_name == profile
    )
    assert shown.status.vgpu_status == "vGPUConfigured"
    assert not shown.spec.enabled
    for sibling in siblings:
        await cluster.until(
            VGPUDevice,
            sibling.metadata.name,
            lambda one: all("-8" in name for name in one.status.available_types),
        )
    assert cluster.carried(host) == {mine.spec.address: profile}

    host.write(path, "0")
    for one in (mine, *siblings):
        await cluster.until(
            VGPUDevice,
            one.metadata.name,
            lambda obj: len(obj.status.available_types) == len(mine.status.available_types),
        )


async def test_a_new_mdev_shrinks_the_lists_of_its_siblings(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    first, *others = scan(host).vgpus
    kind = next(kind for kind in first.creatable if kind.name == Q4)
    types = f"/sys/bus/pci/devices/{first.address}/mdev_supported_types"

    host.write(f"{types}/{kind.id}/create", UUID)

    for other in others:
        name = f"node1-{str(other.address).replace(':', '').replace('.', '')}"
        await cluster.until(
            VGPUDevice, name, lambda one: set(one.status.available_types) == {Q4, *_alike()}
        )


def _alike() -> set[str]:
    return {Q4.replace("4Q", other) for other in ("4A", "4C")}


@pytest.mark.slow
@pytest.mark.parametrize("spec", first("l40s", "a2"))
async def test_looking_at_rest_costs_no_scan_and_no_request(cluster, simulated, requests, spec):
    agent = await cluster.start_agent("node1", simulated(spec, "node1"))
    await cluster.quiet(agent)
    scans = cluster.metric("laneway_scan_seconds_count")
    requests.clear()

    for _ in range(3):
        await agent.silent.look()
    await cluster.quiet(agent)

    assert requests == []
    assert cluster.metric("laneway_scan_seconds_count") == scans
