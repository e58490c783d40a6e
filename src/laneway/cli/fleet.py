"""The GPUs of a cluster as the GPU commands fetch them.

One look is a handful of lists, requested together. Only the lists of the GPUs themselves are
needed; the others may be forbidden or not installed.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, TypeVar

import msgspec

from laneway.api import (
    CoreNode,
    DeviceNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.cli.connection import installed
from laneway.cli.errors import Failure
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import Resource, served
from laneway.views.gpus import NODES, Gpu, assemble, not_listed, place_of

T = TypeVar("T", bound=Any)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NO_VFS = f"!{keys.LABEL_PARENT_GPU},!{keys.LABEL_PARENT_NETWORK_DEVICE}"
"""The PCIDevices of whole cards: of a hundred devices on a node, most are virtual functions."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the GPUs of a cluster, or of a node."""

    gpus: tuple[Gpu, ...]
    unreadable: tuple[str, ...] = ()
    """What is stored and cannot be read, and why."""


async def devices(client: Client) -> list[SRIOVGPUDevice]:
    """All GPUs that can be shared, without what belongs to them."""
    found = await readable(client, served(SRIOVGPUDevice), [])
    return sorted(found, key=place_of)


async def look(client: Client, node: str = "") -> Fleet:
    """Everything about the GPUs of a node, or of all nodes."""
    on_node = f"{keys.LABEL_NODE}={node}" if _LABEL_VALUE.fullmatch(node) else ""
    whole = f"{on_node},{_NO_VFS}" if on_node else _NO_VFS
    unreadable: list[str] = []
    forbidden: list[str] = []
    (gpus, vgpus, cards, nodes), (claims, migs, layouts, agents) = await asyncio.gather(
        asyncio.gather(
            readable(client, served(SRIOVGPUDevice), unreadable, on_node),
            readable(client, served(VGPUDevice), unreadable, on_node),
            _perhaps(client, served(PCIDevice), unreadable, forbidden, whole),
            _nodes(client, unreadable, forbidden),
        ),
        asyncio.gather(
            _perhaps(client, served(PCIDeviceClaim), unreadable, forbidden),
            _perhaps(client, served(MigConfiguration), unreadable, forbidden),
            _perhaps(client, served(VGPULayout), unreadable, forbidden),
            _perhaps(client, served(DeviceNode), unreadable, forbidden),
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
        agents=agents,
        unreadable=sorted(forbidden),
    )
    shown = tuple(gpu for gpu in found if node in ("", gpu.node))
    return Fleet(gpus=shown, unreadable=(*not_listed(sorted(forbidden)), *unreadable))


async def readable(
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
    """The same where a view can do without; what may not be listed goes to `forbidden`."""
    try:
        return await readable(client, resource, unreadable, selector)
    except ForbiddenError:
        known = resource.plural == NODES.plural
        forbidden.append(str(resource) if known else resource.plural)
        return []
    except Failure:
        return []  # Where the kind is not installed, nothing of it exists.


async def _nodes(
    client: Client, unreadable: list[str], forbidden: list[str]
) -> dict[str, CoreNode] | None:
    try:
        found = await readable(client, NODES, unreadable)
    except ForbiddenError:
        forbidden.append(NODES.plural)
        return None
    return {node.metadata.name: node for node in found}
