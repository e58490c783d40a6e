"""The label of a cluster's Node that keeps its GPUs for containers."""

from __future__ import annotations

import pytest

from laneway.api import SRIOVGPUDevice
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import World

pytestmark = pytest.mark.slow

GPU = "node1-000008000"
LABEL = "harvesterhci.io/gpu-baremetal-workloads"


async def test_gpus_that_are_shared_do_not_go_to_containers(world: World, admin: Kubectl) -> None:
    await world.add("node1", "a2")
    said = await admin.refused("label", "node", "node1", f"{LABEL}=true")
    assert f"GPUs of node node1 are enabled for vGPUs: {GPU}" in said
    await admin.ok("label", "node", "node1", "anything=else")

    await admin.patch("sriovgpudevice", GPU, enabled=False)
    await world.until(served(SRIOVGPUDevice), GPU, lambda one: one.status.configured == {})
    await admin.ok("label", "node", "node1", f"{LABEL}=true")
    said = await admin.not_patched("sriovgpudevice", GPU, enabled=True)
    assert "that serves containers" in said
    await admin.ok("label", "node", "node1", f"{LABEL}-")
    await admin.patch("sriovgpudevice", GPU, enabled=True)
