"""Claims that go because their owner has gone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import SECONDS, World

NIC = "node1-000004001"
I350 = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


@pytest.mark.slow
async def test_a_claim_goes_with_its_owner_but_not_from_under_a_vm(
    world: World,
    admin: Kubectl,
    make_claim: Any,
    make_vm: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "laneway.admission.judging")
    alice = admin.as_("alice")
    await world.add("node1", "a2")
    owner = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "project"}}
    await admin.apply(owner)
    uid = (await admin.get("namespace", "project"))["metadata"]["uid"]
    claim = make_claim(NIC, "0000:04:00.1")
    reference = {"apiVersion": "v1", "kind": "Namespace", "name": "project", "uid": uid}
    claim["metadata"]["ownerReferences"] = [reference]
    await alice.apply(claim)
    await world.until(served(PCIDeviceClaim), NIC, lambda one: one.status.passthrough_enabled)
    await alice.apply(make_vm("desk", "Always", hosts=[(NIC, I350)]))
    await world.running("desk")

    await admin.ok("delete", "namespace", "project")
    refused = f"refused DELETE of PCIDeviceClaim {NIC}: pcideviceclaim {NIC} is already in use"
    async with asyncio.timeout(SECONDS):
        while refused not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.05)
    assert "deletionTimestamp" not in (await admin.get("pcideviceclaim", NIC))["metadata"]
    await world.delete_vm("desk")
    await world.until(served(PCIDeviceClaim), NIC, lambda one: one is None)
