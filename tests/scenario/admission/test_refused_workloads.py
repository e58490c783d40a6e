"""GPUs of AMD for containers and for VMs on one node, as an administrator divides them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from laneway.api import CoreNode, PCIDeviceClaim
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import World

DRY = "--dry-run=server"
FIRST, SECOND = "node1-000017000", "node1-000098000"
LABEL = "laneway.io/amd-gpu-containers"


def claim(name: str, address: str) -> dict[str, Any]:
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": name},
        "spec": {"address": address, "nodeName": "node1"},
    }


async def test_a_node_is_divided(world: World, admin: Kubectl) -> None:
    await world.add("node1", "mi210")
    await admin.patch("pcidevice", FIRST, workload="Containers")
    first = json.dumps(claim(FIRST, "0000:17:00.0"))
    async with asyncio.timeout(30):  # until the webhook has heard of it
        while not (tried := await admin.run("create", "-f", "-", DRY, stdin=first)).status:
            pass
    said = tried.err
    assert f"{FIRST} is a GPU of node node1 that serves containers" in said
    assert f"kubectl patch pcidevice {FIRST} --type merge" in said

    await admin.apply(claim(SECOND, "0000:98:00.0"))
    await world.until(served(PCIDeviceClaim), SECOND, lambda one: one.status.passthrough_enabled)
    await world.until(
        served(CoreNode), "node1", lambda one: one.metadata.labels.get(LABEL) == "true"
    )
    said = await admin.not_patched("pcidevice", SECOND, workload="Containers")
    assert f"PCIDeviceClaim {SECOND}" in said
    assert f"kubectl delete pcideviceclaim {SECOND}" in said
    said = await admin.refused(
        "patch", "pcidevice", FIRST, "--type=merge", "-p", '{"spec":{"workload":"Sometimes"}}'
    )
    assert "Unsupported value" in said
