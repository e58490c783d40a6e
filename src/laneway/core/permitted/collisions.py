"""Resource names under which there are several kinds of devices, and what that means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laneway.core.permitted.entries import EXTERNAL, Entry, List, is_external, key_of_item
from laneway.core.permitted.merging import Merged


class Collision(NamedTuple):
    """One resource name that stands for more than one kind of device."""

    list: List
    resource: str
    selectors: tuple[str, ...]
    internal: tuple[str, ...] = ()
    """Those of them that KubeVirt's own device plugin advertises, under the same name."""

    @property
    def words(self) -> str:
        """What it means, and what to do."""
        if self.internal:
            return (
                f"KubeVirt itself advertises {', '.join(self.internal)} as {self.resource}, and "
                "Laneway advertises other devices under that name: the kubelet of a node accepts "
                "only one plugin. Remove the entry from the permitted devices, or set its "
                f"{EXTERNAL} to true"
            )
        return (
            f"{self.resource} selects different devices: {', '.join(self.selectors)}; a VM that "
            "requests it gets any of them. Claim a device with disableResourcePooling to give it "
            "a resource name of its own"
        )


def collisions(merged: Merged, wanted: Iterable[Entry]) -> list[Collision]:
    """Resource names of ours under which there are several kinds of devices."""
    names = {(entry.list, entry.resource) for entry in wanted}
    found = []
    for name, resource in sorted(names):
        selectors: dict[str, bool] = {}
        for item in merged.lists[name]:
            key = key_of_item(name, item)
            if key is not None and key.resource == resource:
                selector = " and ".join(key.selectors)
                selectors[selector] = selectors.get(selector, True) and is_external(item)
        if len(selectors) > 1:
            internal = sorted(one for one, external in selectors.items() if not external)
            found.append(Collision(name, resource, tuple(sorted(selectors)), tuple(internal)))
    return found
