"""What the agent of one node writes into VGPULayouts: the entries of its GPUs, and their sum.

Entries are written by server-side apply with a field manager of the node's, so that agents never
write over each other and an entry that is named no more goes. The sum follows from the entries
alone. Who writes an entry also brings the sum up to date; the others manage it later, in case
that one could not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import defaultdict
from typing import Protocol

import msgspec

from laneway.api import LayoutGpu, VGPULayout, merge_patch, to_builtins
from laneway.controllers.devices.family import merge_conditions
from laneway.controllers.devices.layout import summed
from laneway.controllers.publisher import timestamp
from laneway.controllers.written import Written
from laneway.kube.client import Client, PatchType
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError
from laneway.kube.resource import served

LAYOUTS = served(VGPULayout)

_LONGEST_MANAGER = 128


def field_manager(node: str) -> str:
    """Under which name a node's entries are applied; of a name that is too long, its hash."""
    name = f"laneway-{node}"
    if len(name) <= _LONGEST_MANAGER:
        return name
    return f"laneway-{hashlib.sha256(node.encode()).hexdigest()}"


class Writes(Protocol):
    """The counter of what is written."""

    def wrote(self, verb: str, kind: str) -> None: ...


class LayoutStatus:
    """The entries of one node, as they were written last."""

    def __init__(self, node: str, client: Client, metrics: Writes) -> None:
        self._node = node
        self._client = client
        self._metrics = metrics
        self._entries: dict[str, dict[str, LayoutGpu]] = {}
        """By layout and GPU."""
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._written = Written()

    def entries(self, layout: VGPULayout) -> dict[str, LayoutGpu]:
        """What this node says in a layout; at first what is stored of it."""
        return self._entries.setdefault(layout.metadata.name, self._stored(layout))

    def gpus(self) -> set[str]:
        """Every GPU that this node says something about in any layout."""
        return {gpu for entries in self._entries.values() for gpu in entries}

    def forget(self, layout: str) -> None:
        """It has been deleted."""
        self._entries.pop(layout, None)
        self._writing.pop(layout, None)
        self._written.forget(layout)

    async def tell(self, layout: VGPULayout, gpu: str, entry: LayoutGpu | None) -> None:
        """Say this about one GPU, or nothing any more, and sum up."""
        async with self._writing[layout.metadata.name]:
            before = self.entries(layout)
            after = {name: one for name, one in before.items() if name != gpu}
            if entry is not None:
                after[gpu] = entry
            if before != after:
                await self._sum(await self._apply(layout, after))

    async def keep(self, layout: VGPULayout) -> Retry | None:
        """Put right what others did to our entries, and the sum where no other did."""
        async with self._writing[layout.metadata.name]:
            if lag := self._written.lag(layout.metadata.name, layout.metadata):
                return Retry(lag)
            entries = self.entries(layout)
            if entries != self._stored(layout):
                layout = await self._apply(layout, entries)
            await self._sum(layout)
            return None

    def _stored(self, layout: VGPULayout) -> dict[str, LayoutGpu]:
        return {one.name: one for one in layout.status.gpus if one.node_name == self._node}

    async def _apply(self, layout: VGPULayout, entries: dict[str, LayoutGpu]) -> VGPULayout:
        name = layout.metadata.name
        body = {
            "apiVersion": LAYOUTS.api_version,
            "kind": LAYOUTS.kind,
            "metadata": {"name": name, "uid": layout.metadata.uid},
            "status": {"gpus": [to_builtins(entries[gpu]) for gpu in sorted(entries)]},
        }
        applied = await self._client.patch(
            LAYOUTS,
            name,
            body,
            patch_type=PatchType.APPLY,
            subresource="status",
            field_manager=field_manager(self._node),
            force=True,
        )
        self._entries[name] = entries
        self._note(applied)
        return applied

    async def _sum(self, layout: VGPULayout) -> None:
        """Bring `Ready` and the summary up to date, unless the layout changes now."""
        condition, summary = summed(layout)
        generation, status = layout.metadata.generation, layout.status
        settled = msgspec.structs.replace(
            status,
            observed_generation=generation,
            conditions=merge_conditions(status.conditions, [condition], generation, timestamp()),
            summary=summary,
        )
        if patch := merge_patch(status, settled):
            version = {"resourceVersion": layout.metadata.resource_version}
            body = {"metadata": version, "status": patch}
            with contextlib.suppress(ConflictError):  # The writer that was quicker sums up.
                self._note(
                    await self._client.patch(
                        LAYOUTS, layout.metadata.name, body, subresource="status"
                    )
                )

    def _note(self, written: VGPULayout) -> None:
        self._written.note(written.metadata)
        self._metrics.wrote("patch status", LAYOUTS.kind)
