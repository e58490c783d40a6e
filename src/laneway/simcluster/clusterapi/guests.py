"""What runs in the machines: each that is provisioned and has an address joins as a node.

A node has the GPUs whose devices its machine's status shows as attached, as its device plugin would
find them, and it goes when its machine does. What is no GPU, such as a network card, and how many
GPUs are in a device group, the host's object tells.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from laneway.api import Condition, CoreNode, set_condition, timestamp
from laneway.api.vsphere import DeviceStatus, VSphereHost
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.simcluster.clusterapi.caches import Caches, by_key, machines_of
from laneway.simcluster.clusterapi.objects import (
    ANNOTATION_NODE_IN,
    ANNOTATION_NODE_OF,
    Infra,
    Vm,
)
from laneway.simcluster.clusterapi.writing import create, remove
from laneway.simcluster.node import VERSION
from laneway.simcluster.objects import NODES, Node

GPU = "nvidia.com/gpu"
_NVIDIA = 0x10DE
_ATTACHED = frozenset({"Attached", "InUse"})
_READY = Condition(
    type="Ready",
    status="True",
    reason="KubeletReady",
    message="kubelet is posting ready status",
)


class GuestController:
    """Reconciles nodes with VSphereMachines, whose names they bear."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._caches = caches
        caches.infra_machines.follow(by_key(self.queue.add))
        caches.vms.follow(self._vm_changed)
        caches.nodes.follow(self._node_changed)
        caches.hosts.subscribe(self._host_changed)

    def _vm_changed(self, vm: Vm) -> None:
        for name in machines_of(vm):
            self.queue.add(Key(vm.metadata.namespace, name))

    def _host_changed(self, old: VSphereHost | None, _new: VSphereHost | None) -> None:
        if old is None:  # what a host has rarely changes, but it may be reported late
            for machine in self._caches.infra_machines.store:
                self.queue.add(key_of(machine))

    def _node_changed(self, node: Node) -> None:
        if is_guest(node):
            self.queue.add(Key(_namespace(node), node.metadata.name))

    async def reconcile(self, key: Key) -> None:
        """Have a node there or not, and with what its machine has."""
        infra = self._caches.infra_machines.store.get(key.name, key.namespace)
        node = self._caches.nodes.store.get(key.name)
        if node is not None and not (is_guest(node) and _namespace(node) == key.namespace):
            return  # another's of the same name
        if infra is None:
            if node is not None:
                await remove(self._client, NODES, node.metadata)
        elif infra.provisioned and infra.spec.get("providerID") and infra.status.addresses:
            if node is None:
                with contextlib.suppress(AlreadyExistsError):
                    await create(self._client, NODES, _node(infra))
            else:
                await self._say(infra, node)

    async def _say(self, infra: Infra, node: Node) -> None:
        status: dict[str, Json] = {}
        wanted = resources(infra, self._vms(infra), self._host)
        for field in ("capacity", "allocatable"):
            before = {name: str(amount) for name, amount in getattr(node.status, field).items()}
            if GPU in before:
                wanted = {GPU: "0", **wanted}
            if changed := {k: v for k, v in wanted.items() if before.get(k) != v}:
                status[field] = changed
        now = timestamp(datetime.now(UTC))
        conditions = set_condition(node.status.conditions, _READY, now)
        if conditions != list(node.status.conditions):
            status["conditions"] = msgspec.to_builtins(conditions)
            status["nodeInfo"] = {"kubeletVersion": VERSION}
            status["addresses"] = [msgspec.to_builtins(one) for one in infra.status.addresses]
        if status:
            with contextlib.suppress(ConflictError, NotFoundError):
                await self._client.patch(
                    NODES, node.metadata.name, {"status": status}, subresource="status"
                )

    def _host(self, name: str) -> VSphereHost | None:
        return next(iter(self._caches.hosts.store.by("name", name)), None)

    def _vms(self, infra: Infra) -> list[Vm]:
        meta = infra.metadata
        found = self._caches.vms.store.by("machine", meta.name)
        return [vm for vm in found if vm.metadata.namespace == meta.namespace]


def is_guest(node: Node | CoreNode) -> bool:
    """Whether a node runs in a machine of Cluster API's."""
    return ANNOTATION_NODE_OF in node.metadata.annotations


def resources(
    infra: Infra,
    vms: Sequence[Vm] = (),
    host_of: Callable[[str], VSphereHost | None] = lambda _: None,
) -> Mapping[str, str]:
    """What a machine's node has to give; the devices are those of its VM, where there is one."""
    telling: Sequence[Vm | Infra] = vms or [infra]
    seats = [seat for one in telling for seat in one.status.pci_devices]
    gpus = sum(_gpus(seat, host_of(seat.host)) for seat in seats if seat.state in _ATTACHED)
    own = {
        "cpu": str(infra.spec.get("numCPUs") or 2),
        "memory": f"{infra.spec.get('memoryMiB') or 2048}Mi",
        "pods": "110",
    }
    return own | ({GPU: str(gpus)} if gpus else {})


def _gpus(seat: DeviceStatus, host: VSphereHost | None) -> int:
    """Of one item; a host that tells nothing of it is believed to have one GPU there."""
    if host is None:
        return 1
    for group in host.status.device_groups:
        if group.name == seat.asked:
            return sum(bool(one.profile) or one.vendor_id == _NVIDIA for one in group.parts)
    found = (one.display for one in host.status.devices if one.id == seat.attached)
    return int(next(found, True))


def _namespace(node: Node) -> str:
    return node.metadata.annotations.get(ANNOTATION_NODE_IN, "")


def _node(infra: Infra) -> JsonObject:
    meta = infra.metadata
    machine = next((ref.name for ref in meta.owner_references if ref.kind == "Machine"), "")
    cluster = meta.labels.get(LABEL_CLUSTER, "")
    return {
        "metadata": {
            "name": meta.name,
            "labels": {"kubernetes.io/hostname": meta.name, LABEL_CLUSTER: cluster},
            "annotations": {
                LABEL_CLUSTER: cluster,
                ANNOTATION_NODE_IN: meta.namespace,
                ANNOTATION_NODE_OF: machine,
            },
        },
        "spec": {"providerID": infra.spec["providerID"]},
    }
