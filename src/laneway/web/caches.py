"""What the interface knows of the cluster: one cache of each kind for all users of a process.

The caches are filled with the rights of the role itself, which may read these kinds and write none.
What of it a user is shown is decided per user, by `access`.

What a hundred thousand devices have in common is kept once (`kube.devices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import msgspec

from laneway.admission.indexes import INDEXERS
from laneway.admission.world import COMING, DEVICE_NAME, FRAMEWORK, GROUP, RESOURCE
from laneway.admission.world import PARENT as GPU
from laneway.api import (
    CoreNode,
    DeviceNode,
    HostPolicy,
    HostPreparation,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.api.nodes import CoreNodeStatus
from laneway.controllers.ledger.objects import PODS, Pod
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.devices import GPUS, PCI_CLAIMS, PCI_DEVICES, VGPUS
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.nodes import node
from laneway.kube.pods import PODS as AGENT_PODS
from laneway.kube.pods import Pod as AgentPod
from laneway.kube.resource import Key, KubeObject, Resource, served
from laneway.kube.store import Indexer
from laneway.kube.vms import INSTANCES, VIRTUAL_MACHINES
from laneway.views.activity import EVENTS, Event

NODE = "node"
"""The index of objects by their node."""
_PARENT = "parent"
"""The index of virtual functions and vGPUs by their GPU."""
AGENTS = "app.kubernetes.io/name=laneway,app.kubernetes.io/component=agent"
"""Labels of the agents' pods."""


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a node runs."""

    kernel_version: str = ""
    os_image: str = ""
    kubelet_version: str = ""


class NodeStatus(CoreNodeStatus, frozen=True, kw_only=True, rename="camel", gc=False):
    """What the kubelet says about a node."""

    node_info: NodeInfo = NodeInfo()
    allocatable: Mapping[str, str] = {}


class Node(CoreNode, frozen=True, kw_only=True, rename="camel", gc=False):
    """A node of the cluster, with what it runs."""

    status: NodeStatus = NodeStatus()


class Change(NamedTuple):
    """What has changed in a cache."""

    kind: str
    """The name of the cache."""
    key: Key
    before: Any
    """The object before and after; None for what is not there."""
    after: Any


LEDGER = Change("ledger", Key("", ""), None, None)
"""The ledger was made again, a moment after what it is made from has changed. Pages that show it
name `ledger` among their kinds."""

HISTORY = Change("history", Key("", ""), None, None)
"""The history of holders is another. Its page names `history` among its kinds."""

POOLS = Change("pools", Key("", ""), None, None)
"""Something else is known of machine pools. Pages that show them name `pools` among their kinds."""


def of_node(obj: Any) -> list[str]:
    """The node of a device, by what has its own field for it."""
    spec = getattr(obj, "spec", None)
    status = getattr(obj, "status", None)
    node = (
        getattr(spec, "node_name", "")
        or getattr(status, "node_name", "")
        or obj.metadata.labels.get(keys.LABEL_NODE, "")
    )
    return [node] if node else []


def parent_of(vgpu: VGPUDevice) -> str:
    """`NODE/ADDRESS` of the GPU of a virtual function."""
    return f"{vgpu.spec.node_name}/{vgpu.spec.parent_gpu_device_address}"


def _judged(kind: str, *indexes: str) -> Mapping[str, Indexer[Any]]:
    """Indexes by which the rules of admission look at a kind."""
    return {name: INDEXERS[kind][name] for name in indexes}


@dataclass(frozen=True)
class Caches:
    """An informer of each kind."""

    nodes: Informer[Node]
    device_nodes: Informer[DeviceNode]
    gpus: Informer[SRIOVGPUDevice]
    vgpus: Informer[VGPUDevice]
    migs: Informer[MigConfiguration]
    layouts: Informer[VGPULayout]
    pci: Informer[PCIDevice]
    claims: Informer[PCIDeviceClaim]
    networks: Informer[SRIOVNetworkDevice]
    usb: Informer[USBDevice]
    usb_claims: Informer[USBDeviceClaim]
    policies: Informer[HostPolicy]
    preparations: Informer[HostPreparation]
    vms: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    events: Informer[Event]
    agents: Informer[AgentPod]
    """Laneway's own pods on the nodes."""

    @classmethod
    def of(cls, client: Client) -> Caches:
        """Caches that are filled once their informers run."""
        on_node = {NODE: of_node}
        return cls(
            nodes=Informer(client, Resource("", "v1", "nodes", False, Node, "Node", decoder=node)),
            device_nodes=Informer(client, served(DeviceNode)),
            gpus=Informer(client, GPUS, indexers=on_node),
            vgpus=Informer(
                client,
                VGPUS,
                indexers={
                    NODE: of_node,
                    _PARENT: lambda vgpu: [parent_of(vgpu)],
                    **_judged("vgpus", RESOURCE, FRAMEWORK, COMING),
                },
            ),
            migs=Informer(client, served(MigConfiguration), indexers=on_node),
            layouts=Informer(client, served(VGPULayout)),
            pci=Informer(
                client,
                PCI_DEVICES,
                indexers={**on_node, **_judged("pci_devices", RESOURCE, GROUP, GPU)},
            ),
            claims=Informer(
                client,
                PCI_CLAIMS,
                indexers={**on_node, **_judged("claims", RESOURCE, COMING)},
            ),
            networks=Informer(client, served(SRIOVNetworkDevice), indexers=on_node),
            usb=Informer(
                client,
                served(USBDevice),
                indexers={**on_node, **_judged("usb_devices", RESOURCE)},
            ),
            usb_claims=Informer(
                client,
                served(USBDeviceClaim),
                indexers={**on_node, **_judged("usb_claims", RESOURCE, COMING)},
            ),
            policies=Informer(client, served(HostPolicy)),
            preparations=Informer(client, served(HostPreparation)),
            vms=Informer(client, VIRTUAL_MACHINES, indexers=_judged("vms", DEVICE_NAME)),
            instances=Informer(client, INSTANCES, indexers=_judged("instances", DEVICE_NAME)),
            pods=Informer(client, PODS),
            events=Informer(client, EVENTS),
            agents=Informer(client, AGENT_PODS, label_selector=AGENTS),
        )

    @property
    def all(self) -> Mapping[str, Informer[KubeObject]]:
        """Every informer by its name here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def waiting_for(self) -> list[str]:
        """The kinds of which nothing is known yet, as kubectl names them."""
        waiting = (one for one in self.all.values() if not one.answered.is_set())
        return sorted({str(one.resource) for one in waiting})

    def vgpus_of(self, node: str, address: str) -> list[VGPUDevice]:
        """The virtual functions of a GPU."""
        return self.vgpus.store.by(_PARENT, f"{node}/{address}")

    def follow(self, listener: Callable[[Change], None]) -> None:
        """Call for every change of any kind from now on, and for what is known already."""

        def following(kind: str) -> Callable[[Any, Any], None]:
            def changed(before: Any, after: Any) -> None:
                meta = (after or before).metadata
                listener(Change(kind, Key(meta.namespace, meta.name), before, after))

            return changed

        for name, informer in self.all.items():
            informer.subscribe(following(name))
