"""Which devices the objects of a node request."""

from __future__ import annotations

from typing import Any

from laneway.api import ObjectMeta, PCIDeviceClaim, PCIDeviceClaimSpec
from laneway.controllers.device_plugin.desired import Asked
from laneway.core.inventory import Inventory
from laneway.core.names import pci_object_name
from laneway.core.pci import PciAddress
from laneway.roles.node_caches import NodeCaches
from laneway.sim.spec import build, parse_spec

NOBODY: Any = None
"""No API server is asked: what is judged is the caches."""


def test_a_claim_of_another_node_requests_nothing_here() -> None:
    found = NodeCaches(NOBODY, "node1", has_kubelet=False)
    for node, address in (("node1", "0000:17:00.1"), ("node2", "0000:17:00.0")):
        spec = PCIDeviceClaimSpec(address=address, node_name=node)
        metadata = ObjectMeta(name=pci_object_name(node, PciAddress.parse(address)))
        found.claims.store.put(PCIDeviceClaim(metadata=metadata, spec=spec))
    asked = Asked("node1", build(parse_spec("plain"), "node1"), found.for_device_plugin())
    asked.subscribe(lambda: None)

    functions = asked.desired_states(Inventory()).functions
    assert [str(one.address) for one in functions] == ["0000:17:00.1"]
