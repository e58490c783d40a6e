"""Which layout owns each GPU of a node, as the layouts themselves tell it.

A layout's status is the record: an entry with a generation that was applied makes the layout the
owner, until the layout is deleted, only asks what would be done, or selects the GPU no more.
"""

from __future__ import annotations

from collections.abc import Callable

from laneway.api import VGPULayout
from laneway.controllers.devices.layout import claimant, claims, owns
from laneway.core.layout.desired import Claimant, owner, owner_words
from laneway.kube.informer import Informer


class Owners:
    """Run `run` in a task."""

    def __init__(self, node: str, layouts: Informer[VGPULayout]) -> None:
        self._node = node
        self._layouts = layouts
        self._owned: dict[str, dict[str, Claimant]] = {}
        """GPUs by layout."""
        self._listeners: list[Callable[[str], None]] = []
        layouts.subscribe(self._layout_changed)

    def subscribe(self, call: Callable[[str], None]) -> None:
        """Call with the name of a GPU's object when its owner may be another; empty: of any GPU."""
        self._listeners.append(call)

    def words(self, gpu: str, *, single: bool, stored: str) -> str:
        """The owner of a GPU as objects show it; what is stored as long as they do not.

        `single`: whether a VGPUDevice requests a vGPU.
        """
        if not self._layouts.synced.is_set():
            return stored
        rivals = (gpus[gpu] for gpus in self._owned.values() if gpu in gpus)
        return owner_words(owner(rivals), single=single)

    async def run(self) -> None:
        """Tell once what is known."""
        await self._layouts.synced.wait()
        self._tell("")

    def _layout_changed(self, before: VGPULayout | None, after: VGPULayout | None) -> None:
        name = (after or before or VGPULayout()).metadata.name
        old = self._owned.pop(name, {})
        new: dict[str, Claimant] = {}
        if after is not None and claims(after):
            new = {
                one.name: claimant(after, one)
                for one in after.status.gpus
                if one.node_name == self._node and owns(one)
            }
        if new:
            self._owned[name] = new
        for gpu in sorted(old.keys() ^ new.keys()):
            self._tell(gpu)

    def _tell(self, gpu: str) -> None:
        for call in self._listeners:
            call(gpu)
