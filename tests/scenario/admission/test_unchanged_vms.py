"""Who writes a VM without touching its devices is not asked about them, however he writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import VMS
from support.kubectl import Kubectl
from support.worlds import NAMESPACE, World

pytestmark = pytest.mark.slow

NIC = "node1-000004001"
I350 = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


async def _replace(consumer: Kubectl, labels: dict[str, str]) -> None:
    """Write the whole VM, and once more where a controller was between reading and writing."""
    while True:
        stored = await consumer.get("vm", "desk")
        stored["metadata"]["labels"] = labels
        done = await consumer.run("replace", "-f", "-", stdin=json.dumps(stored))
        if "the object has been modified" not in done.err:
            assert (done.status, done.err) == (0, ""), done
            return


async def test_by_whatever_means_it_is_written(world: World, admin: Kubectl, make_vm: Any) -> None:
    """The device is another's, and even gone: who edits the rest of the VM is not warned."""
    bob = admin.as_("bob")
    node = await world.add("node1", "a2")
    await world.claim(NIC)
    body = make_vm("desk", "Always", hosts=[(NIC, I350)])
    await admin.ok("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    await world.running("desk")

    await bob.ok("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))
    await _replace(bob, {"replaced": "yes"})
    await bob.ok("label", "vm", "desk", "labelled=yes")
    finalizers = {"metadata": {"finalizers": ["example.com/kept"]}}
    await bob.ok("patch", "vm", "desk", "--type=merge", "-p", json.dumps(finalizers))
    await bob.ok("patch", "vm", "desk", "--type=merge", "-p", '{"spec":{"runStrategy":"Halted"}}')
    await world.status("desk", "Stopped")

    # What it names is gone, with its claim.
    await world.kill_agent(node)
    await world.client.patch(served(PCIDeviceClaim), NIC, {"metadata": {"finalizers": None}})
    await admin.ok("delete", "node", "node1")
    await world.until(served(PCIDeviceClaim), NIC, lambda one: one is None)
    await _replace(bob, {"replaced": "again"})
    await bob.ok("delete", "vm", "desk", "--wait=false")
    nothing = {"metadata": {"finalizers": None}}
    await bob.ok("patch", "vm", "desk", "--type=merge", "-p", json.dumps(nothing))
    await world.until(VMS, "desk", lambda one: one is None, NAMESPACE)
