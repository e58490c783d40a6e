"""What is said of a node: once, and not again until it is something else."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway.kube import capv
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.node_checks.reconciler import CONDITION, NodeChecks
from support.vsphere_works import Line, said

KEY = Key("default", "one")
IN_ORDER = {
    "type": "PCIDevicesReady",
    "status": "True",
    "reason": "InUse",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_what_is_said_already_is_not_written_again(works: Any) -> None:
    """Of a node that cannot be looked at, as its workload cluster cannot be reached."""
    body = {"template": "ubuntu", "network": {"devices": []}}
    body |= {"pciDevices": [{"vendorId": 0x10DE, "deviceId": 0x1EB8}]}
    status = {"initialization": {"provisioned": True}, "conditions": [IN_ORDER]}
    await works.make(capv.VSPHERE_MACHINES, "one", body, status=status)
    async with Line(works.config) as line:
        caches = VsphereCaches.of(line)
        checks = NodeChecks(line, caches, EventRecorder(line, "laneway-manager"))
        seen: asyncio.Queue[capv.VSphereMachine | None] = asyncio.Queue()
        caches.vsphere_machines.subscribe(lambda _, new: seen.put_nowait(new))
        running = asyncio.create_task(caches.vsphere_machines.run())
        while said(await seen.get(), CONDITION)[0] != "False":
            await checks.reconcile(KEY)
        await checks.reconcile(KEY)
        running.cancel()
        await asyncio.wait([running])
    assert [verb for verb, _ in line.done if verb == "PATCH"] == ["PATCH"]
