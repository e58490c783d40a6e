"""Who had hardware changed, step by step, as the API tells it afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.core import keys
from laneway.kube.resource import served
from support.activity import writes
from support.kubectl import Kubectl
from support.layouts import make, of, settled
from support.plans import audited

GPU, VGPU, SIBLING = "node1-000008000", "node1-000008004", "node1-000008005"
NOTE = keys.ANNOTATION_REQUESTED_BY


@pytest.fixture
def reviewed() -> bool:
    return True


async def user_of(cluster: Any, cls: type[Any], name: str) -> str:
    note = (await cluster.get(cls, name)).metadata.annotations.get(NOTE, "{}")
    return str(json.loads(note).get("user", ""))


async def test_every_write_to_hardware_is_told_with_its_user_and_steps(
    cluster: Any, bare: Any, alice: Kubectl, bob: Kubectl
) -> None:
    agent = await cluster.start_agent("node1", bare())
    await alice.patch("sriovgpudevice", GPU, enabled=True)
    await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)
    await cluster.until(VGPUDevice, VGPU, lambda one: one is not None)
    await bob.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName="NVIDIA A2-4Q")
    await cluster.answer(VGPU, "Configured")

    vgpu, gpu = await writes(cluster.client, lambda found: len(found) == 2)

    assert [(row.kind, row.name, row.who, row.outcome, row.node) for row in (gpu, vgpu)] == [
        ("SRIOVGPUDevice", GPU, "alice", "done", "node1"),
        ("VGPUDevice", VGPU, "bob", "done", "node1"),
    ]
    lines = [line for line in audited(agent.hardware) if line.step is not None]
    assert [
        (one.words, one.outcome, one.before, one.after) for one in (*gpu.steps, *vgpu.steps)
    ] == [(line.words, line.outcome, line.before, line.after) for line in lines]
    assert {line.actor for line in lines} == {"laneway agent for alice", "laneway agent for bob"}
    assert {line.object for line in lines} == {f"SRIOVGPUDevice {GPU}", f"VGPUDevice {VGPU}"}
    assert vgpu.text.startswith("By laneway agent for bob: ")
    assert vgpu.devices == ("0000:08:00.4",)
    # What Laneway's own accounts write afterwards changes nothing about that.
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"enabled": False}}
    await cluster.own.patch(served(VGPUDevice), VGPU, patch)
    await cluster.until(VGPUDevice, VGPU, lambda one: not one.status.configure_vgpu_type_name)
    assert await user_of(cluster, VGPUDevice, VGPU) == "bob"
    await cluster.quiet(agent)


@pytest.mark.slow
async def test_a_step_that_fails_is_told_with_what_was_undone(
    cluster: Any, gate: Any, alice: Kubectl
) -> None:
    host = gate("a2", "node1")
    await cluster.start_agent("node1", host)
    host.refused = "/mdev_supported_types"
    await alice.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName="NVIDIA A2-4Q")

    (row, *_) = await writes(cluster.client, bool)

    assert (row.who, row.outcome, row.warning) == ("alice", "failed", True)
    failed = [step for step in row.steps if step.outcome == "failed"]
    assert "EBUSY" in failed[0].error
    assert f"Failed: {failed[0].words}: {failed[0].error}." in row.text


@pytest.mark.slow
async def test_what_a_layout_has_done_is_requested_by_its_user(
    cluster: Any, simulated: Any, alice: Kubectl
) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await alice.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName="NVIDIA A2-4Q")
    await cluster.answer(VGPU, "Configured")
    await make(cluster, "desktops", vgpus=of(A2_4Q=2), takeOver=True)  # By the administrator.
    await settled(cluster, "desktops", "Done")

    newest, before = await writes(cluster.client, lambda found: len(found) == 2)
    assert (newest.who, before.who, before.name) == ("admin", "alice", VGPU)
    # Its first desired state is met as it is, and stays whose it was.
    assert await user_of(cluster, VGPUDevice, VGPU) == "alice"
    assert await user_of(cluster, VGPUDevice, newest.name) == "admin"


async def test_a_note_is_no_users_to_write(
    cluster: Any, simulated: Any, alice: Kubectl, bob: Kubectl
) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await alice.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName="NVIDIA A2-4Q")
    written = (await cluster.get(VGPUDevice, VGPU)).metadata.annotations[NOTE]
    assert json.loads(written)["user"] == "alice"

    for forged in (f"{NOTE}={json.dumps({'user': 'carol'})}", f"{NOTE}-"):
        await bob.ok("annotate", "--overwrite", "vgpudevice", VGPU, forged)
        assert (await cluster.get(VGPUDevice, VGPU)).metadata.annotations[NOTE] == written
    forged = {"metadata": {"annotations": {NOTE: written}}, "spec": {"enabled": False}}
    await bob.ok("patch", "vgpudevice", VGPU, "--type=merge", "-p", json.dumps(forged))
    assert await user_of(cluster, VGPUDevice, VGPU) == "bob"
    # Of what the agent has published nothing is requested by a user.
    assert await user_of(cluster, VGPUDevice, SIBLING) == ""
