"""VGPUDevices that request what cannot be: each is answered, nothing is done, nothing grows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import VGPUDevice
from laneway.kube.resource import served
from laneway.sim.host import SimulatedHost
from support.examples import first

pytestmark = pytest.mark.realapi

VGPU = "node1-000008004"
Q4 = "NVIDIA A2-4Q"
HOSTILE = {
    "long": "NVIDIA A2-4Q" * 20_000,
    "control characters": "NVIDIA A2-4Q\x1b[2J\n\r\x00",
    "other letters": "NVIDIA \u0410\u202e2-4Q \U0001f4a3",
    "a path": "../../../../etc/passwd",
    "an absolute path": "/dev/vfio/vfio",
    "a command": "NVIDIA A2-4Q; reboot $(reboot) `reboot`",
    "an id": "nvidia-746",
    "another card's": "NVIDIA L40S-8Q",
    "another case": "nvidia a2-4q",
    "blanks": " NVIDIA A2-4Q ",
}
LONGEST_STATUS = 4096
LONGEST_EVENT = 1024


async def create(cluster: Any, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {"name": name, "labels": {"nodename": "node1"}},
        "spec": {"nodeName": "node1", "enabled": True, "vGPUTypeName": Q4, **spec},
    }
    await cluster.client.create(served(VGPUDevice), body)


async def events(cluster: Any) -> list[Any]:
    return json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))["items"]


def changes(host: SimulatedHost) -> int:
    """Everything that was ever tried on the machine."""
    return host.faults.count


@pytest.mark.parametrize("text", first(*HOSTILE.values()), ids=HOSTILE)
async def test_a_profile_that_is_none_is_reported_and_moves_nothing(cluster, simulated, text):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    before = changes(host)

    await cluster.ask(VGPU, text)

    vgpu = await cluster.answer(VGPU, "ProfileNotOffered")
    await cluster.quiet(agent)
    words = cluster.message(vgpu)
    assert words.isprintable()
    assert words.startswith("The driver offers no profile named ")
    assert ": NVIDIA A2-" in words
    raw = await cluster.client.raw(f"{served(VGPUDevice).path()}/{VGPU}")
    assert len(json.dumps(json.loads(raw)["status"])) < LONGEST_STATUS
    said = [one["message"] for one in await events(cluster)]
    assert said
    assert all(len(one) <= LONGEST_EVENT and one.isprintable() for one in said)
    assert changes(host) == before

    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")


async def test_an_empty_profile_is_requested(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    before = changes(host)

    await cluster.ask(VGPU, "")

    vgpu = await cluster.answer(VGPU, "ProfileMissing")
    assert "spec.vGPUTypeName is empty" in cluster.message(vgpu)
    assert changes(host) == before


async def test_objects_of_what_does_not_exist_are_answered(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    before = changes(host)
    gpu = {"parentGPUDeviceAddress": "0000:08:00.0"}

    await create(cluster, "node1-000099004", address="0000:99:00.4")
    await create(cluster, "node1-000099005", address="0000:99:00.5", **gpu)
    await create(cluster, "node1-000008007f", address="0000:08:00.7", **gpu)
    await create(cluster, "node1-000008036", address="0000:08:03.6", **gpu)
    await create(cluster, "node7-000008004", address="0000:08:00.4", **gpu)
    await create(cluster, "stray", address="", nodeName="")

    for name in ("node1-000099004", "node1-000099005", "node1-000008036"):
        vgpu = await cluster.answer(name, "DeviceNotFound")
        assert f"Device {vgpu.spec.address} does not exist" in cluster.message(vgpu)
    for name in ("node1-000008007f", "node7-000008004", "stray"):
        assert name in cluster.message(await cluster.answer(name, "NameMismatch"))
    await cluster.quiet(agent)
    assert changes(host) == before
    assert agent.restored.is_set()

    for name in ("node1-000099004", "node1-000008036"):
        await cluster.disable(name)
        await cluster.until(VGPUDevice, name, lambda vgpu: vgpu is None)


async def test_an_object_of_another_node_under_our_label_is_its_agent_s(cluster, simulated):
    """So it is with a node that is gone: no agent reports on it, and nothing is done."""
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    before = changes(host)

    await create(cluster, "node2-000008004", address="0000:08:00.4", nodeName="node2")
    await create(cluster, "handmade", address="0000:08:00.4", nodeName="node2")

    vgpu = await cluster.answer("handmade", "NameMismatch")
    assert "node2" in cluster.message(vgpu)
    await cluster.quiet(agent)
    other = await cluster.get(VGPUDevice, "node2-000008004")
    assert other.status.observed_generation == 0
    assert changes(host) == before
