"""Whether a layout still requests a GPU, as the API server has it now.

Each kind has a watch of its own, and none waits for another: who deletes a layout and then changes
a desired state below it may be heard of in the other order. So before anything is desired for a
layout, the server is asked. That is late enough: what the desired state is about was read before,
and the write holds only if that has not changed since.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from laneway.api import CoreNode, VGPULayout
from laneway.controllers.devices.layout import selection
from laneway.controllers.layouts.status import LAYOUTS
from laneway.core.layout.desired import selects_node
from laneway.kube.client import Client
from laneway.kube.resource import Resource, T, served

_NODES = served(CoreNode)


def terms(layout: VGPULayout) -> tuple[object, ...]:
    """What decides about a layout, in addition to its status."""
    metadata = layout.metadata
    return metadata.uid, metadata.generation, layout.spec, metadata.deletion_timestamp


async def stands(client: Client, layout: VGPULayout, node: str) -> bool:
    """Whether a layout is stored as we know it, and means GPUs of a node."""
    stored = await _stored(client, LAYOUTS, layout.metadata.name)
    if stored is None or terms(stored) != terms(layout):
        return False
    chosen = selection(layout)
    if not chosen.labels:
        return True
    labelled = await _stored(client, _NODES, node)
    return selects_node(chosen, node, labelled.metadata.labels if labelled else {})


async def _stored(client: Client, resource: Resource[T], name: str) -> T | None:
    """One object, from a list of one, for which an agent has the right; or none to be read."""
    found: T | None = None
    async for page in client.list(resource, field_selector=f"metadata.name={name}"):
        for item in page.items:
            with suppress(msgspec.DecodeError, ValueError):
                found = resource.decode(item)
    return found
