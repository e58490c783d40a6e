"""Whether KubeVirt lets VMs request a device by its resource.

The manager alone writes KubeVirt's lists; here they are only read. The kind is KubeVirt's, so a
cluster may lack it: then nothing has to be permitted, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from laneway.core.permitted import EXTERNAL, Entry, Key, is_external, key_of, key_of_item
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import KUBEVIRTS, KubeVirt, lists_of


class Say(NamedTuple):
    """What a condition says."""

    reason: str
    """CamelCase word for VMs."""
    message: str
    """Whole sentences."""


class Permitted(NamedTuple):
    """Whether a device may be requested."""

    allowed: bool | None
    """None: nothing has to be permitted."""
    why: Say


UNKNOWN = Permitted(
    False,
    Say(
        "Unknown",
        "KubeVirt's lists have not been read yet. If this stays, read the log of the agent.",
    ),
)
NO_KUBEVIRT = Permitted(
    None, Say("NoKubeVirt", "The cluster has no KubeVirt, so no permission is needed.")
)


UNNAMED = Permitted(
    False, Say("NotPermitted", "Ids or name of the device are unknown, so KubeVirt has no entry.")
)


class Permission:
    """KubeVirt's lists, as they are now."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._kubevirts: Informer[KubeVirt] = Informer(client, KUBEVIRTS)
        self._changed = changed
        self._entries: dict[Key, bool] = {}
        """What the lists name, and whether its devices come from elsewhere than KubeVirt."""

    async def run(self) -> None:
        """Follow the lists until cancelled."""
        self._kubevirts.subscribe(self._read)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kubevirts.run())
            await self._kubevirts.answered.wait()
            self._changed()

    async def answered(self) -> None:
        """Wait until the lists have been read, or it is clear that there are none."""
        await self._kubevirts.answered.wait()

    def of(self, entry: Entry | None) -> Permitted:
        """Whether VMs may request a device that this entry would name."""
        informer = self._kubevirts
        if not informer.answered.is_set():
            return UNKNOWN
        if informer.unserved or not len(informer.store):
            return NO_KUBEVIRT
        if entry is None:
            return UNNAMED
        what = f"{entry.resource} for {entry.selector}"
        external = self._entries.get(key_of(entry))
        if external:
            return Permitted(True, Say("Permitted", f"KubeVirt's {entry.list} names {what}."))
        text = (
            f"KubeVirt's {entry.list} does not have {what}."
            if external is None
            else f"KubeVirt's {entry.list} has {what}, but KubeVirt advertises these devices "
            f"itself ({EXTERNAL} is not true)."
        )
        manager = "laneway manager corrects this. If it stays, check that the manager runs."
        return Permitted(False, Say("NotPermitted", f"{text} {manager}"))

    def _read(self, _before: KubeVirt | None, _after: KubeVirt | None) -> None:
        entries: dict[Key, bool] = {}
        for kubevirt in self._kubevirts.store:
            for name, items in lists_of(kubevirt).items():
                for item in items:
                    if key := key_of_item(name, item):
                        entries[key] = entries.get(key, False) or is_external(item)
        self._entries = entries
        self._changed()
