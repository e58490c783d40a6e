"""What the objects of a node desire to be advertised.

Only objects that stand for the device that they are named for count: anybody can write others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple

from laneway.api import (
    PCIDevice,
    PCIDeviceClaim,
    USBDeviceClaim,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.devices.family import named_otherwise
from laneway.core import keys
from laneway.core.claims.usb_access import QEMU
from laneway.core.device_plugin.device_list import ClaimedFunction, ClaimedUsb, DesiredDevices
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.host.port import Host
from laneway.host.usb import read_owners
from laneway.kube.informer import Informer
from laneway.kube.pods import Pod
from laneway.kube.resource import Key, T


def is_of(claim: PCIDeviceClaim, node: str) -> bool:
    """Whether a claim is about the function of this node that has its name."""
    spec = claim.spec
    return spec.node_name == node and not named_otherwise(
        claim.metadata.name, spec.address, spec.node_name, node
    )


def claimed(claim: PCIDeviceClaim) -> ClaimedFunction:
    """What a claim requests. Raises ValueError when its address is none."""
    annotations = claim.metadata.annotations
    return ClaimedFunction(
        address=PciAddress.parse(claim.spec.address),
        override=annotations.get(keys.ANNOTATION_RESOURCE_NAME, ""),
        pinned=claim.spec.disable_resource_pooling,
        skip_binding=keys.ANNOTATION_SKIP_BINDING in annotations,
        vendor=claim.status.vendor_id,
        device=claim.status.device_id,
        leaving=bool(claim.metadata.deletion_timestamp),
    )


class Caches(NamedTuple):
    """The objects that decide."""

    claims: Informer[PCIDeviceClaim]
    """Those of the node, and maybe of others."""
    usb: Informer[USBDeviceClaim]
    vgpus: Informer[VGPUDevice]
    pcis: Informer[PCIDevice]
    pods: Informer[Pod]
    """Those of the node."""


class _Requesting(Generic[T]):
    """Those of a cache's objects that request anything, which of hundreds are a few."""

    def __init__(self, informer: Informer[T], requests: Callable[[T], bool]) -> None:
        self._store = informer.store
        self._requests = requests
        self._found: dict[Key, T] = {}
        self._seen = -1
        """How many changes of the cache these are as of."""

    def now(self) -> Iterable[T]:
        changed = self._store.changed_since(self._seen)
        for key in self._store.keys() | self._found.keys() if changed is None else changed:
            obj = self._store.at(key)
            if obj is not None and self._requests(obj):
                self._found[key] = obj
            else:
                self._found.pop(key, None)
        self._seen = self._store.changes
        return self._found.values()


class Asked:
    """What the objects of one node request now. All caches must be complete."""

    def __init__(self, node: str, host: Host, caches: Caches) -> None:
        self._node = node
        self._host = host
        self._caches = caches
        self._claims: dict[str, PCIDeviceClaim] = {}
        """Those of the node: the cache may have more."""
        self._vgpus = _Requesting(caches.vgpus, lambda vgpu: vgpu.spec.enabled)
        self._named = _Requesting(caches.pcis, lambda pci: bool(_name(pci)))

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Have a call whenever something else is requested, and now."""

        def claim_changed(before: PCIDeviceClaim | None, after: PCIDeviceClaim | None) -> None:
            if after is not None and is_of(after, self._node):
                self._claims[after.metadata.name] = after
                changed()
            elif (one := after or before) and self._claims.pop(one.metadata.name, None):
                changed()

        def object_changed(before: Any, after: Any) -> None:
            if _asks(before) != _asks(after):
                changed()

        self._caches.claims.subscribe(claim_changed)
        self._caches.usb.subscribe(object_changed)
        self._caches.vgpus.subscribe(object_changed)
        self._caches.pcis.subscribe(object_changed)

    def desired_states(self, inventory: Inventory) -> DesiredDevices:
        """Everything that is requested in view of what is."""
        return DesiredDevices(
            functions=tuple(map(claimed, self._claims.values())),
            usb=tuple(_usb(inventory, self._node, self._host, self._caches.usb.store)),
            profiles=dict(_profiles(inventory, self._node, self._vgpus.now())),
            annotations=dict(_annotations(self._named.now())),
        )


def _asks(obj: Any) -> Any:
    """The part of an object that decides; what an agent writes itself does not.

    None of an object that requests nothing, as of one that is not there.
    """
    if obj is None:
        return None
    if isinstance(obj, PCIDevice):
        return (_name(obj), obj.status.address) if _name(obj) else None
    if isinstance(obj, USBDeviceClaim):
        return obj.status, obj.metadata.deletion_timestamp
    return obj.spec


def _profiles(
    inventory: Inventory, node: str, vgpus: Iterable[VGPUDevice]
) -> Iterator[tuple[PciAddress, str]]:
    for vgpu in vgpus:
        spec = vgpu.spec
        if not named_otherwise(vgpu.metadata.name, spec.address, spec.node_name, node):
            address = PciAddress.parse(spec.address)
            carrier = inventory.vgpu(address)
            current = carrier.configured if carrier else None
            # A desired state that names no profile is one for whatever is there.
            if profile := spec.vgpu_type_name or (current.type_name if current else ""):
                yield address, profile


def _annotations(pcis: Iterable[PCIDevice]) -> Iterator[tuple[PciAddress, str]]:
    for pci in pcis:
        try:
            yield PciAddress.parse(pci.status.address), _name(pci)
        except ValueError:
            continue  # Not observed yet.


def _name(pci: PCIDevice) -> str:
    """The resource name that an object says for its function, Harvester's annotation."""
    return pci.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")


def _usb(
    inventory: Inventory, node: str, host: Host, claims: Iterable[USBDeviceClaim]
) -> Iterator[ClaimedUsb]:
    bound = [claim for claim in claims if claim.status.node_name == node and _is_bound(claim)]
    if not bound:
        return
    owners = read_owners(host, inventory.usb)
    for claim in bound:
        status = claim.status
        if owners.get(status.port) == QEMU:
            yield ClaimedUsb(
                name=claim.metadata.name,
                port=status.port,
                path=status.device_path,
                leaving=bool(claim.metadata.deletion_timestamp),
            )


def _is_bound(claim: USBDeviceClaim) -> bool:
    condition = find_condition(claim.status.conditions, "Bound")
    return condition is not None and condition.status == "True"
