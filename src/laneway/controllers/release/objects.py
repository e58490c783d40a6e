"""Everything that objects request on some nodes, from one look at the API."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from laneway.api import (
    VGPU_CONFIGURED,
    Condition,
    MigConfiguration,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.controllers.cluster.caches import VGPUS, Vgpu
from laneway.controllers.devices.holder import holder
from laneway.controllers.devices.outcome import IN_PROGRESS
from laneway.core import keys, names
from laneway.core.pci import PciAddress
from laneway.core.raw import JsonObject
from laneway.core.reasons.former import renamed
from laneway.core.release.everything import Stage, Target
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import KubeObject, Resource, T, served

KINDS: dict[str, Resource[KubeObject]] = {
    kind.__name__: served(kind)
    for kind in (
        VGPULayout,
        PCIDeviceClaim,
        USBDeviceClaim,
        VGPUDevice,
        MigConfiguration,
        SRIOVGPUDevice,
        SRIOVNetworkDevice,
    )
}
_FOREIGN = frozenset(
    ("UnmanagedVgpu", "UnmanagedVfs", "UnmanagedMode", "UnmanagedInstances", "CardReplaced")
)
"""Answers to objects that requested nothing: what is there is not Laneway's."""


async def look(client: Client, nodes: Collection[str]) -> list[Target]:
    """All that is requested; `nodes` empty: on all nodes. Raises KubeError."""
    layouts, claims, sticks, vgpus, (migs, gpus, cards) = await asyncio.gather(
        _all(client, served(VGPULayout)),
        _all(client, served(PCIDeviceClaim)),
        _all(client, served(USBDeviceClaim)),
        _all(client, VGPUS),
        asyncio.gather(
            _all(client, served(MigConfiguration)),
            _all(client, served(SRIOVGPUDevice)),
            _all(client, served(SRIOVNetworkDevice)),
        ),
    )
    homes = _homes(gpus, cards)
    parents = {
        vgpu.metadata.name: vgpu.metadata.labels.get(keys.LABEL_PARENT_GPU, "") for vgpu in vgpus
    }
    found = [
        *(target for one in layouts if (target := _layout(one, nodes)) is not None),
        *(_claim(one, homes, parents) for one in claims),
        *map(_stick, sticks),
        *(_vgpu(one, homes) for one in vgpus),
        *map(_mig, migs),
        *map(_gpu, gpus),
        *map(_network, cards),
    ]
    return [one for one in found if not nodes or one.stage is Stage.LAYOUT or one.node in nodes]


async def _all(client: Client, resource: Resource[T]) -> list[T]:
    """All objects; none where the cluster lacks the kind. Raises ValueError for an odd one."""
    found: list[T] = []
    try:
        async for page in client.list(resource):
            found += [resource.decode(item) for item in page.items]
    except NotFoundError:
        return []
    return found


def _homes(gpus: Iterable[SRIOVGPUDevice], cards: Iterable[SRIOVNetworkDevice]) -> dict[str, str]:
    """The card of each virtual function, by the function's name."""
    found = {}
    for gpu in gpus:
        for name in gpu.status.vgpu_devices:
            found[name] = gpu.metadata.name
    for card in cards:
        of_addresses = (_name(card.spec.node_name, address) for address in card.status.vf_addresses)
        for name in (*card.status.vf_pci_devices, *of_addresses):
            found[name] = card.metadata.name
    return found


def _name(node: str, address: str) -> str:
    try:
        return names.pci_object_name(node, PciAddress.parse(address))
    except ValueError:
        return ""


def _layout(one: VGPULayout, nodes: Collection[str]) -> Target | None:
    if one.spec.dry_run:
        return None  # A command's own, which takes it away again.
    spoken_of = sorted({gpu.node_name for gpu in one.status.gpus if gpu.node_name})
    if nodes and not set(spoken_of) & set(nodes):
        return None
    return Target(
        kind="VGPULayout",
        name=one.metadata.name,
        node=" ".join(spoken_of),
        stage=Stage.LAYOUT,
        way="delete",
        desired=one.metadata.deletion_timestamp is None,
        present=True,
        elsewhere=tuple(node for node in spoken_of if nodes and node not in nodes),
    )


def _claim(one: PCIDeviceClaim, homes: dict[str, str], parents: dict[str, str]) -> Target:
    meta = one.metadata
    return Target(
        kind="PCIDeviceClaim",
        name=meta.name,
        node=one.spec.node_name,
        stage=Stage.DEVICE,
        way="delete",
        desired=meta.deletion_timestamp is None,
        present=True,
        holder=holder(one.status.allocation),
        words=_words(one.status.conditions),
        card=homes.get(meta.name) or parents.get(meta.name) or meta.name,
        follows=any(owner.kind == "VGPUDevice" for owner in meta.owner_references),
    )


def _stick(one: USBDeviceClaim) -> Target:
    return Target(
        kind="USBDeviceClaim",
        name=one.metadata.name,
        node=one.status.node_name,
        stage=Stage.DEVICE,
        way="delete",
        desired=one.metadata.deletion_timestamp is None,
        present=True,
        holder=holder(one.status.allocation),
        words=_words(one.status.conditions),
    )


def _vgpu(one: Vgpu, homes: dict[str, str]) -> Target:
    meta, status = one.metadata, one.status
    desired = one.spec.enabled
    there = status.vgpu_status == VGPU_CONFIGURED
    return Target(
        kind="VGPUDevice",
        name=meta.name,
        node=one.spec.node_name or meta.labels.get(keys.LABEL_NODE, ""),
        stage=Stage.DEVICE,
        way="disable",
        desired=desired,
        present=there and not _is_foreign(desired, status.conditions),
        answered=_answered(one),
        holder=holder(status.allocation),
        words=_words(status.conditions),
        card=homes.get(meta.name) or meta.labels.get(keys.LABEL_PARENT_GPU, ""),
    )


def _mig(one: MigConfiguration) -> Target:
    there = any(profile.vgpu_ids for profile in one.status.profile_status)
    return _of_card(one, Stage.MIG, desired=one.spec.enabled, there=there)


def _gpu(one: SRIOVGPUDevice) -> Target:
    there = bool(one.status.vf_addresses)
    return _of_card(one, Stage.FUNCTIONS, desired=one.spec.enabled, there=there)


def _network(one: SRIOVNetworkDevice) -> Target:
    there = bool(one.status.vf_addresses)
    return _of_card(one, Stage.FUNCTIONS, desired=one.spec.num_vfs > 0, there=there)


def _of_card(
    one: MigConfiguration | SRIOVGPUDevice | SRIOVNetworkDevice,
    stage: Stage,
    *,
    desired: bool,
    there: bool,
) -> Target:
    """What a card is divided into, which is desired by an object of the card's name."""
    return Target(
        kind=type(one).__name__,
        name=one.metadata.name,
        node=one.spec.node_name or one.metadata.labels.get(keys.LABEL_NODE, ""),
        stage=stage,
        way="disable",
        desired=desired,
        present=there and not _is_foreign(desired, one.status.conditions),
        answered=_answered(one),
        words=_words(one.status.conditions),
        card=one.metadata.name,
    )


def _answered(one: Any) -> bool:
    """Whether the Ready condition speaks of what is requested now."""
    ready = find_condition(one.status.conditions, "Ready")
    return ready is not None and ready.observed_generation >= one.metadata.generation


def _is_foreign(desired: bool, conditions: Sequence[Condition]) -> bool:
    ready = find_condition(conditions, "Ready")
    return not desired and ready is not None and renamed(ready.reason) in _FOREIGN


def _words(conditions: Sequence[Condition]) -> str:
    ready = find_condition(conditions, "Ready")
    if ready is None or ready.status == "True" or ready.reason == IN_PROGRESS:
        return ""
    return f"{ready.reason}: {ready.message}"


def disabled(kind: str) -> JsonObject:
    """The spec by which an object requests nothing any more."""
    return {"numVFs": 0} if kind == "SRIOVNetworkDevice" else {"enabled": False}
