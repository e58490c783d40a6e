"""A world to judge in: one node with devices of every kind, and short ways to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.admission.indexes import INDEXERS
from laneway.admission.request import Access, Operation, Request, Requester
from laneway.admission.verdict import Rules, Verdict
from laneway.admission.world import World
from laneway.api import CoreNode, PCIDevice, PCIDeviceClaim, decode
from laneway.controllers.ledger.objects import Pod
from laneway.core.ledger.ledger import Ledger
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.store import Store

AGENT = "system:serviceaccount:harvester-system:laneway-agent"


def name_of(address: str) -> str:
    return f"node1-{address.replace(':', '').replace('.', '')}"


def claim_of(
    address: str,
    user: str,
    *,
    metadata: Any = None,
    spec: Any = None,
    status: Any = None,
) -> PCIDeviceClaim:
    raw = {
        "metadata": {"name": name_of(address), **(metadata or {})},
        "spec": {"address": address, "nodeName": "node1", "userName": user, **(spec or {})},
        "status": status or {},
    }
    return decode(PCIDeviceClaim, msgspec.json.encode(raw))


class Scene:
    """A world, and judgements in it."""

    def __init__(self) -> None:
        stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
        self.known: Ledger | None = None
        self.world = World(**stores, ledger=lambda: self.known, trusted=frozenset({AGENT}))
        self.put("nodes", CoreNode, {"metadata": {"name": "node1"}})

    def put(self, store: str, kind: type[Any], raw: dict[str, Any]) -> Any:
        """Have the cluster know an object; as JSON, for that is how it comes."""
        obj = decode(kind, msgspec.json.encode(raw))
        getattr(self.world, store).put(obj)
        return obj

    def pci(self, address: str, **status: Any) -> PCIDevice:
        """A PCI function of node1, which may be claimed if nothing else is said."""
        raw = {
            "metadata": {"name": name_of(address), "labels": status.pop("labels", {})},
            "spec": status.pop("spec", {}),
            "status": {
                "address": address,
                "nodeName": "node1",
                "vendorId": "10de",
                "classId": "0302",
                "iommuGroup": "10",
                "claimable": True,
                **status,
            },
        }
        found: PCIDevice = self.put("pci_devices", PCIDevice, raw)
        return found

    def claim(self, address: str, user: str = "alice", **changes: Any) -> PCIDeviceClaim:
        """A claim of a function of node1; not known to the cluster."""
        return claim_of(address, user, **changes)

    def claimed(self, address: str, user: str = "alice", **changes: Any) -> PCIDeviceClaim:
        """The same, known to the cluster."""
        claim = claim_of(address, user, **changes)
        self.world.claims.put(claim)
        return claim

    def vm(
        self,
        name: str,
        *devices: str,
        resource: str = "nvidia.com/X",
        record: str = "",
        runs: bool = False,
        **metadata: Any,
    ) -> None:
        """A VM in namespace default that names devices."""
        domain = {
            "devices": {"hostDevices": [{"name": d, "deviceName": resource} for d in devices]}
        }
        meta = {"name": name, "namespace": "default", **metadata}
        if record:
            meta["annotations"] = {"harvesterhci.io/deviceAllocationDetails": record}
        spec = {"running": runs, "template": {"spec": {"domain": domain}}}
        self.put("vms", VirtualMachine, {"metadata": meta, "spec": spec})
        if runs:
            raw = {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"domain": domain},
                "status": {"phase": "Running"},
            }
            self.put("instances", VirtualMachineInstance, raw)

    def pod(self, name: str, node: str, resource: str, **status: Any) -> None:
        """A pod that has a device."""
        raw = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"limits": {resource: "1"}}}],
            },
            "status": status,
        }
        self.put("pods", Pod, raw)

    def node_leaves(self) -> None:
        """The cluster has the node no more."""
        for key in sorted(self.world.nodes.keys()):
            self.world.nodes.drop(key)

    def judge(
        self,
        rules: Rules,
        operation: str,
        *,
        old: Any = None,
        new: Any = None,
        user: str = "alice",
        rights: tuple[Access, ...] = (),
    ) -> Verdict:
        """What the rules say, given just those of the rights that they request."""
        subject = new if new is not None else old
        request: Request[Any] = Request(
            Operation(operation), subject.metadata.name, "", Requester(user), old=old, new=new
        )
        asked = frozenset(rules.asks(request, self.world))
        return rules.judge(request, self.world, asked & frozenset(rights))


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def agent() -> str:
    """The username of Laneway's agent."""
    return AGENT


@pytest.fixture
def reasons() -> Callable[[Verdict], list[str]]:
    """The reasons of a verdict."""
    return lambda verdict: [one.reason for one in verdict.refusals]
