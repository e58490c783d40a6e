"""The GPUs of a cluster with all that belongs to each: what the GPU commands look at.

One look is a handful of lists, requested together. What a person may not read, or what is not
installed, leaves its part out where the command can do without it: only the GPUs themselves are
needed. What may not be read is said, so that it is not taken for something that does not exist.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from laneway.api import (
    Condition,
    LayoutGpu,
    MigConfiguration,
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.cli.connection import installed
from laneway.cli.errors import Failure
from laneway.cli.order import natural
from laneway.core import keys
from laneway.core.vgpu.profiles import profiles_on
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import Resource, served

T = TypeVar("T", bound=Any)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NO_VFS = f"!{keys.LABEL_PARENT_GPU},!{keys.LABEL_PARENT_NETWORK_DEVICE}"
"""The PCIDevices of whole cards: of a hundred devices on a node, most are virtual functions."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet's side of the cluster says about a node."""

    conditions: Sequence[Condition] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster with its conditions, which no other part of Laneway reads."""

    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()


_NODES = Resource("", "v1", "nodes", False, Node, "Node")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that can be shared, and everything that the cluster knows about it."""

    device: SRIOVGPUDevice
    pci: PCIDevice | None = None
    vgpus: tuple[VGPUDevice, ...] = ()
    """In the order of their addresses."""
    mig: MigConfiguration | None = None
    layouts: tuple[tuple[VGPULayout, LayoutGpu], ...] = ()
    """Those that say something about it, oldest first."""
    stale: str = ""
    """Why no agent keeps its objects up to date; empty where nothing is known against it."""
    claim: PCIDeviceClaim | None = None
    """That of the whole card."""
    labels: Mapping[str, str] = {}
    """Of its node."""
    abandoned: bool = False
    """Its node is not in the cluster any more."""
    unreadable: tuple[str, ...] = ()
    """Resources that the person may not list: what they say about it is missing."""

    @property
    def name(self) -> str:
        return self.device.metadata.name

    @property
    def node(self) -> str:
        return node_of(self.device)

    @property
    def address(self) -> str:
        return self.device.spec.address

    @property
    def title(self) -> str:
        """As the commands take it."""
        return f"{self.node}/{self.address}"

    @property
    def board(self) -> str:
        """What the card is called: by the catalogue, else by the database of PCI ids."""
        if self.pci is None:
            return ""
        status = self.pci.status
        boards = {one.board for one in profiles_on(status.device_id, status.subsystem_device_id)}
        if len(boards) == 1:
            return boards.pop()
        _, bracket, named = status.description.rpartition("[")
        return named.rstrip("]") if bracket else status.description.rpartition(":")[2].strip()

    @property
    def ready(self) -> Condition | None:
        """The answer to the present desired state, if there is one."""
        found = find_condition(self.device.status.conditions, "Ready")
        if found is None or found.observed_generation < self.device.metadata.generation:
            return None
        return found


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the GPUs of a cluster, or of a node."""

    gpus: tuple[Gpu, ...]
    unreadable: tuple[str, ...] = ()
    """What is stored and cannot be read, and why."""


def node_of(device: SRIOVGPUDevice | VGPUDevice) -> str:
    """The node that holds a device; one that another client made may say it in its label only."""
    return device.spec.node_name or device.metadata.labels.get(keys.LABEL_NODE, "")


async def devices(client: Client) -> list[SRIOVGPUDevice]:
    """All GPUs that can be shared, without what belongs to them."""
    found = await _list(client, served(SRIOVGPUDevice), [])
    return sorted(found, key=_place)


async def look(client: Client, node: str = "") -> Fleet:
    """Everything about the GPUs of a node, or of all nodes."""
    on_node = f"{keys.LABEL_NODE}={node}" if _LABEL_VALUE.fullmatch(node) else ""
    whole = f"{on_node},{_NO_VFS}" if on_node else _NO_VFS
    unreadable: list[str] = []
    forbidden: list[str] = []
    (gpus, vgpus, cards, nodes), (claims, migs, layouts) = await asyncio.gather(
        asyncio.gather(
            _list(client, served(SRIOVGPUDevice), unreadable, on_node),
            _list(client, served(VGPUDevice), unreadable, on_node),
            _perhaps(client, served(PCIDevice), unreadable, forbidden, whole),
            _nodes(client, unreadable, forbidden),
        ),
        asyncio.gather(
            _perhaps(client, served(PCIDeviceClaim), unreadable, forbidden),
            _perhaps(client, served(MigConfiguration), unreadable, forbidden),
            _perhaps(client, served(VGPULayout), unreadable, forbidden),
        ),
    )
    found = assemble(
        gpus,
        vgpus,
        cards=cards,
        claims=claims,
        migs=migs,
        layouts=layouts,
        nodes=nodes,
        unreadable=sorted(forbidden),
    )
    shown = tuple(gpu for gpu in found if node in ("", gpu.node))
    return Fleet(gpus=shown, unreadable=(*not_listed(sorted(forbidden)), *unreadable))


def not_listed(resources: Sequence[str]) -> list[str]:
    """The warning about what may not be listed, if there is anything."""
    if not resources:
        return []
    return [f"you may not list {', '.join(resources)}; what they say is missing here"]


def assemble(
    gpus: Iterable[SRIOVGPUDevice],
    vgpus: Iterable[VGPUDevice],
    *,
    cards: Iterable[PCIDevice] = (),
    claims: Iterable[PCIDeviceClaim] = (),
    migs: Iterable[MigConfiguration] = (),
    layouts: Iterable[VGPULayout] = (),
    nodes: Mapping[str, Node] | None = None,
    unreadable: Iterable[str] = (),
) -> tuple[Gpu, ...]:
    """Every GPU with what belongs to it; `nodes` None: they may not be listed."""
    functions: dict[tuple[str, str], list[VGPUDevice]] = defaultdict(list)
    for vgpu in vgpus:
        functions[node_of(vgpu), vgpu.spec.parent_gpu_device_address].append(vgpu)
    missing = tuple(unreadable)
    by_name = {card.metadata.name: card for card in cards}
    claimed = {(claim.spec.node_name, claim.spec.address): claim for claim in claims}
    divided = {(mig.spec.node_name, mig.spec.gpu_address): mig for mig in migs}
    said: dict[str, list[tuple[VGPULayout, LayoutGpu]]] = defaultdict(list)
    for layout in sorted(layouts, key=_age):
        for entry in layout.status.gpus:
            said[entry.name].append((layout, entry))
    return tuple(
        Gpu(
            device=device,
            pci=by_name.get(device.metadata.name),
            vgpus=tuple(sorted(functions[place], key=lambda vgpu: vgpu.spec.address)),
            mig=divided.get(place),
            claim=claimed.get(place),
            labels=nodes[place[0]].metadata.labels if nodes and place[0] in nodes else {},
            layouts=tuple(said[device.metadata.name]),
            stale="" if nodes is None else staleness(nodes.get(place[0])),
            abandoned=nodes is not None and place[0] not in nodes,
            unreadable=missing,
        )
        for device in sorted(gpus, key=_place)
        for place in [(node_of(device), device.spec.address)]
    )


def staleness(node: Node | None) -> str:
    """Why the objects of a node may be out of date. A node that is not judged is taken as it is."""
    if node is None:
        return "the cluster has no such node any more"
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return ""
    since = f" since {ready.last_transition_time}" if ready.last_transition_time else ""
    why = f": {ready.message}" if ready.message else ""
    return f"the node is not ready{since}{why}"


def _place(device: SRIOVGPUDevice) -> tuple[Any, ...]:
    return natural(node_of(device)), device.spec.address, device.metadata.name


def _age(layout: VGPULayout) -> tuple[str, str]:
    return layout.metadata.creation_timestamp, layout.metadata.name


async def _list(
    client: Client, resource: Resource[T], unreadable: list[str], selector: str = ""
) -> list[T]:
    """All objects that can be read; why others cannot goes to `unreadable`."""
    found = []
    with installed(resource.kind):
        async for page in client.list(resource, label_selector=selector):
            for item in page.items:
                try:
                    found.append(resource.decode(item))
                except ValueError as error:
                    unreadable.append(str(error))
    return found


async def _perhaps(
    client: Client,
    resource: Resource[T],
    unreadable: list[str],
    forbidden: list[str],
    selector: str = "",
) -> list[T]:
    """`_list` of what a view can do without; its name goes to `forbidden` if it may not be read."""
    try:
        return await _list(client, resource, unreadable, selector)
    except ForbiddenError:
        forbidden.append(resource.plural)
        return []
    except Failure:
        return []  # Where the kind is not installed, nothing of it exists.


async def _nodes(
    client: Client, unreadable: list[str], forbidden: list[str]
) -> dict[str, Node] | None:
    try:
        found = await _list(client, _NODES, unreadable)
    except ForbiddenError:
        forbidden.append(_NODES.plural)
        return None
    return {node.metadata.name: node for node in found}
