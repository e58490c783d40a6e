"""Which objects of Laneway's are left of a node that is gone.

They are looked up once, when that has happened: a manager that kept them all in memory would hold
every device of the cluster. Only what names the node itself counts, never what merely is named like
something of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from laneway.api import (
    DeviceNode,
    HostPreparation,
    MigConfiguration,
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
    kind_of,
)
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource, T, served


class _Names(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The node that a part of an object names."""

    node_name: str = ""


class OfNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Any object of a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Names = _Names()
    status: _Names = _Names()

    @property
    def node(self) -> str:
        """The node that it says it belongs to; empty when it does not say."""
        label = self.metadata.labels.get(keys.LABEL_NODE, "")
        return self.spec.node_name or self.status.node_name or label


def _resource(kind: type[Any]) -> Resource[OfNode]:
    info = kind_of(kind)
    return Resource(info.group, info.version, info.plural, info.namespaced, OfNode, info.kind)


PCI_CLAIMS = _resource(PCIDeviceClaim)
USB_CLAIMS = _resource(USBDeviceClaim)
DEVICE_NODES = _resource(DeviceNode)
PREPARATIONS = _resource(HostPreparation)
_LABELLED = [
    _resource(kind)
    for kind in (VGPUDevice, SRIOVGPUDevice, SRIOVNetworkDevice, PCIDevice, USBDevice)
]
_UNLABELLED = [_resource(MigConfiguration), PCI_CLAIMS]

FINALIZERS = {keys.FINALIZER_PCI_CLAIM, keys.FINALIZER_USB_CLAIM}
"""What only the agent of a node takes off otherwise."""


@dataclass(frozen=True)
class Leftover:
    """One object that the node has left behind."""

    resource: Resource[OfNode]
    obj: OfNode

    @property
    def is_held(self) -> bool:
        """Whether it goes as soon as others remove their finalizers."""
        meta = self.obj.metadata
        return meta.deletion_timestamp is not None and not FINALIZERS & set(meta.finalizers)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.obj.metadata.name}"


async def leftovers(client: Client, node: str) -> list[Leftover]:
    """All objects of a node that can be removed, in the order in which they are to go.

    Not those that are being deleted already and that others hold.
    Claims are the first, so that nothing else takes them along before their finalizers are off.
    The node's own object is the last: while it is there, it shows that there is work left.
    """
    found: list[Leftover] = []
    for resource in _LABELLED:
        label = f"{keys.LABEL_NODE}={node}"
        found += [
            Leftover(resource, obj)
            for obj in await _all(client, resource, label_selector=label)
            if obj.node == node
        ]
    sticks = {one.obj.metadata.name for one in found if one.resource.kind == USBDevice.__name__}
    for resource in _UNLABELLED:
        found += [Leftover(resource, o) for o in await _all(client, resource) if o.node == node]
    found += [
        Leftover(USB_CLAIMS, obj)
        for obj in await _all(client, USB_CLAIMS)
        # One that no agent has answered says nothing but the name of its device.
        if obj.node == node or (not obj.node and obj.metadata.name in sticks)
    ]
    found += [
        Leftover(resource, obj)
        for resource in (PREPARATIONS, DEVICE_NODES)
        for obj in await _all(client, resource, field_selector=f"metadata.name={node}")
    ]
    removable = [one for one in found if not one.is_held]
    return sorted(removable, key=lambda one: _ORDER.get(one.resource.kind, 1))


_ORDER = {PCI_CLAIMS.kind: 0, USB_CLAIMS.kind: 0, DEVICE_NODES.kind: 2}


async def layouts_with(client: Client, node: str) -> list[VGPULayout]:
    """The layouts in which the node's agent has said something."""
    return [
        layout
        for layout in await _all(client, served(VGPULayout))
        if any(gpu.node_name == node for gpu in layout.status.gpus)
    ]


async def _all(
    client: Client, resource: Resource[T], *, label_selector: str = "", field_selector: str = ""
) -> list[T]:
    """All objects of a kind; none where the cluster lacks it, nor any that cannot be read."""
    found = []
    pages = client.list(resource, label_selector=label_selector, field_selector=field_selector)
    try:
        async for page in pages:
            for item in page.items:
                try:
                    found.append(resource.decode(item))
                except (msgspec.DecodeError, ValueError):
                    continue
    except NotFoundError:
        return []
    return found
