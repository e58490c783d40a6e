"""A small cluster, and VMs on it, as admission sees them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kapilite.patches import patch
from kapilite.schemas import schema, validation
from laneway.admission.indexes import INDEXERS
from laneway.admission.request import Access, Operation, Request, Requester
from laneway.admission.verdict import Verdict
from laneway.admission.vms import mutate, pools, validate
from laneway.admission.world import World
from laneway.api import (
    Condition,
    CoreNode,
    ObjectMeta,
    OwnerReference,
    PCIDevice,
    PCIDeviceBar,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceClaimStatus,
    PCIDeviceStatus,
    USBDevice,
    USBDeviceClaim,
    USBDeviceClaimSpec,
    USBDeviceClaimStatus,
    USBDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    decode,
)
from laneway.controllers.ledger import demands, devices
from laneway.core import names
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Facts, NodeFact
from laneway.core.ledger.ledger import Ledger
from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import (
    Features,
    KubeVirt,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceReplicaSet,
    VirtualMachinePool,
)
from laneway.kube.store import Store

CRDS = Path(__file__).parents[3] / "data" / "crds"

GPU = "nvidia.com/GA100_A100"
AUDIO = "nvidia.com/AUDIO"
OVERHEAD = Features(reserved_overhead=True)
KINDS = {
    "VirtualMachine": (VirtualMachine, validate.judge, validate.asks),
    "VirtualMachineInstance": (
        VirtualMachineInstance,
        pools.judge_instance,
        pools.asks_instance,
    ),
    "VirtualMachinePool": (VirtualMachinePool, pools.judge_pool, pools.asks_pool),
    "VirtualMachineInstanceReplicaSet": (
        VirtualMachineInstanceReplicaSet,
        pools.judge_replica_set,
        pools.asks_replica_set,
    ),
}


def _ready(ready: Condition | bool) -> list[Condition]:
    if isinstance(ready, Condition):
        return [ready, Condition(type="Advertised", status="False", message=ready.message)]
    reported = "True" if ready else "False"
    said = "" if ready else "The kubelet is away."
    reason = "Available" if ready else "NotRegistered"
    return [
        Condition(type=kind, status=reported, reason=reason, message=said)
        for kind in ("Ready", "Advertised")
    ]


class Cluster:
    """Everything that a test puts into it, and what admission says then."""

    kinds = KINDS

    def __init__(self) -> None:
        stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
        self.world = World(**stores, ledger=self.ledger)
        self.knows_ledger = True
        self.granted: set[tuple[str, str]] = set()
        """Plural and name; an empty name is all."""
        self.asked: list[Access] = []

    def ledger(self) -> Ledger | None:
        world = self.world
        if not self.knows_ledger:
            return None
        facts = [
            *map(devices.of_claim, world.claims),
            *map(devices.of_usb_claim, world.usb_claims),
            *(devices.of_vgpu(vgpu) for vgpu in world.vgpus),  # type: ignore[arg-type]  # same fields
        ]
        nodes = tuple(NodeFact(one.metadata.name, one.metadata.labels) for one in world.nodes)
        asking = tuple(demands.of_vms(world.vms, world.instances, ()))
        return build(Facts(tuple(one for one in facts if one), asking, nodes))

    def node(self, name: str, **labels: str) -> None:
        labels = {"kubernetes.io/hostname": name, **labels}
        self.world.nodes.put(CoreNode(metadata=ObjectMeta(name=name, labels=labels)))

    def _at(self, node: str) -> None:
        if self.world.nodes.get(node) is None:
            self.node(node)

    def pci(
        self,
        node: str,
        address: str,
        resource: str = GPU,
        *,
        group: str = "",
        claimed: str | None = "alice",
        ready: Condition | bool = True,
        class_id: str = "0302",
        bars: Sequence[int] = (),
    ) -> str:
        """A function; `claimed` None leaves it without a claim."""
        self._at(node)
        name = names.pci_object_name(node, PciAddress.parse(address))
        self.world.pci_devices.put(
            PCIDevice(
                metadata=ObjectMeta(name=name),
                status=PCIDeviceStatus(
                    address=address,
                    node_name=node,
                    resource_name=resource,
                    iommu_group=group,
                    class_id=class_id,
                    bars=[PCIDeviceBar(index=at, size=size) for at, size in enumerate(bars)],
                ),
            )
        )
        if claimed is not None:
            self.claim(node, address, resource, user=claimed, ready=ready)
        return name

    def claim(
        self,
        node: str,
        address: str,
        resource: str,
        *,
        user: str,
        ready: Condition | bool = True,
        owners: Sequence[OwnerReference] = (),
        leaving: bool = False,
    ) -> None:
        name = names.pci_object_name(node, PciAddress.parse(address))
        self.world.claims.put(
            PCIDeviceClaim(
                metadata=ObjectMeta(
                    name=name,
                    owner_references=owners,
                    deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
                ),
                spec=PCIDeviceClaimSpec(address=address, node_name=node, user_name=user),
                status=PCIDeviceClaimStatus(resource_name=resource, conditions=_ready(ready)),
            )
        )

    def answered(self, claim: str, *conditions: Condition) -> None:
        """What an agent has said of a claim so far."""
        found = self.world.claims.get(claim)
        status = msgspec.structs.replace(found.status, conditions=conditions)
        self.world.claims.put(msgspec.structs.replace(found, status=status))

    def vgpu(
        self,
        node: str,
        address: str,
        profile: str = "NVIDIA A2-2Q",
        *,
        framework: str = "vendor-vfio",
        enabled: bool = True,
        ready: Condition | bool = True,
        bars: Sequence[int] = (),
    ) -> str:
        self._at(node)
        resource = names.vgpu_resource_name(profile)
        there = resource if enabled else "nvidia.com/VF"
        name = self.pci(node, address, there, claimed=None, bars=bars)
        conditions = [one for one in _ready(ready) if enabled]
        self.world.vgpus.put(
            VGPUDevice(
                metadata=ObjectMeta(name=name),
                spec=VGPUDeviceSpec(
                    address=address, node_name=node, enabled=enabled, vgpu_type_name=profile
                ),
                status=VGPUDeviceStatus(
                    framework=framework,
                    configure_vgpu_type_name=profile if enabled else "",
                    resource_name=resource if enabled else "",
                    vgpu_status="vGPUConfigured" if enabled else "",
                    conditions=conditions,
                ),
            )
        )
        if enabled and framework == "vendor-vfio":
            owner = OwnerReference(api_version="", kind="VGPUDevice", name=name, uid="")
            self.claim(node, address, resource, user="admin", ready=ready, owners=[owner])
        return name

    def usb(self, node: str, number: int, *, claimed: str | None = "alice") -> str:
        self._at(node)
        name = names.usb_object_name(node, "046d", "c52b", 3, number)
        resource = names.usb_resource_name(name)
        self.world.usb_devices.put(
            USBDevice(
                metadata=ObjectMeta(name=name),
                status=USBDeviceStatus(node_name=node, resource_name=resource),
            )
        )
        if claimed is not None:
            self.world.usb_claims.put(
                USBDeviceClaim(
                    metadata=ObjectMeta(name=name),
                    spec=USBDeviceClaimSpec(user_name=claimed),
                    status=USBDeviceClaimStatus(
                        node_name=node, resource_name=resource, conditions=_ready(ready=True)
                    ),
                )
            )
        return name

    def kubevirt(self, namespace: str) -> None:
        """An installation of KubeVirt."""
        meta = ObjectMeta(name="kubevirt", namespace=namespace)
        self.world.installations.put(KubeVirt(metadata=meta))

    def there(self, raw: Mapping[str, Any]) -> None:
        """A VM that exists."""
        self.world.vms.put(decode(VirtualMachine, raw))

    def runs(self, raw: Mapping[str, Any], node: str) -> None:
        """One that exists and runs."""
        self.there(raw)
        body = {
            "metadata": raw["metadata"],
            "spec": raw["spec"]["template"]["spec"],
            "status": {"phase": "Running", "nodeName": node},
        }
        self.world.instances.put(decode(VirtualMachineInstance, body))

    def vm(
        self,
        *host_devices: str | tuple[str, str] | Mapping[str, Any],
        name: str = "vm",
        gpus: Sequence[Mapping[str, Any]] = (),
        strategy: str = "Always",
        selector: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **domain: Any,
    ) -> dict[str, Any]:
        """A raw VirtualMachine; of a device its name is enough."""
        lists: dict[str, Any] = {}
        if host_devices:
            lists["hostDevices"] = [self.entry(one) for one in host_devices]
        if gpus:
            lists["gpus"] = [dict(one) for one in gpus]
        spec: dict[str, Any] = {"domain": {"devices": lists, **domain}}
        if selector:
            spec["nodeSelector"] = dict(selector)
        meta: dict[str, Any] = {"name": name, "namespace": "default"}
        if annotations:
            meta["annotations"] = dict(annotations)
        return {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": meta,
            "spec": {"runStrategy": strategy, "template": {"spec": spec}},
        }

    def entry(self, device: str | tuple[str, str] | Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(device, Mapping):
            return dict(device)
        if isinstance(device, tuple):
            return {"name": device[0], "deviceName": device[1]}
        found = self.world.pci_devices.get(device) or self.world.usb_devices.get(device)
        assert found is not None
        return {"name": device, "deviceName": found.status.resource_name}

    def request(
        self,
        raw: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        user: str = "alice",
        deleted: bool = False,
    ) -> Request[Any]:
        kind = KINDS[raw["kind"]][0]
        operation = Operation.UPDATE if old is not None else Operation.CREATE
        return Request(
            Operation.DELETE if deleted else operation,
            raw["metadata"]["name"],
            raw["metadata"]["namespace"],
            Requester(user),
            old=decode(kind, raw if deleted else old) if old is not None or deleted else None,
            new=None if deleted else decode(kind, raw),
        )

    def knows(self, raw: Mapping[str, Any], *, user: str) -> bool:
        """Whether an instance is judged at once."""
        return pools.knows_instance(self.request(raw, user=user), self.world)

    def judge(
        self, raw: Mapping[str, Any], old: Mapping[str, Any] | None = None, **more: Any
    ) -> Verdict:
        """What validation says, the rights having been asked."""
        _, judge, asks = KINDS[raw["kind"]]
        request = self.request(raw, old, **more)
        self.asked = list(asks(request, self.world))
        granted = frozenset(
            one
            for one in self.asked
            if {(one.resource, one.name), (one.resource, "")} & self.granted
        )
        return judge(request, self.world, granted)

    def reasons(self, *args: Any, **kwargs: Any) -> list[str]:
        return [one.reason for one in self.judge(*args, **kwargs).refusals]

    def mutate(
        self,
        raw: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        features: Features = OVERHEAD,
    ) -> mutate.Mutation:
        return mutate.mutate(raw, old, self.world, features=features)

    def mutated(
        self,
        raw: dict[str, Any],
        old: Mapping[str, Any] | None = None,
        features: Features = OVERHEAD,
    ) -> dict[str, Any]:
        """The VM with the patch applied, as an API server does."""
        operations = [dict(one) for one in self.mutate(raw, old, features).operations]
        return patch.apply(patch.JSON, copy.deepcopy(raw), operations)

    @staticmethod
    def devices(raw: Mapping[str, Any], part: str = "hostDevices") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = raw["spec"]["template"]["spec"]["domain"]["devices"].get(
            part, []
        )
        return found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@functools.cache
def _schema() -> dict[str, Any]:
    text = (CRDS / "virtualmachines.kubevirt.io.yaml").read_text()
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


@pytest.fixture(scope="session")
def kubevirt_complains() -> Any:
    """What KubeVirt's own definition of a VirtualMachine finds wrong or does not know."""

    def complain(raw: Mapping[str, Any]) -> list[Any]:
        value = copy.deepcopy(dict(raw))
        unknown = schema.fit(_schema(), value)
        return [*unknown, *validation.problems(_schema(), value)]

    return complain
