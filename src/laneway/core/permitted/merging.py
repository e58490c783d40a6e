"""Which devices KubeVirt's list of permitted devices has to name, and how to keep them there.

KubeVirt's three lists belong to many: to people, to other operators, and to Laneway. The API server
treats each list as one value, so no manager can own single entries of it by server-side apply. What
is ours is therefore remembered next to the lists, in an annotation that the same write changes; an
entry that the annotation does not name belongs to another and stays as it is, where it is.

Everything here is sets of what KubeVirt takes for the same. So any order and number of reconciles
ends in the same entries, and a list that is right is not written.

An entry that was there before with KubeVirt as its provider would have two plugins register one
name. It is made an external one while Laneway needs it, and restored afterwards. An equal entry
that is external already does what is needed: it stays its author's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from laneway.core.permitted.entries import (
    EXTERNAL,
    Entry,
    Key,
    List,
    is_external,
    item_of,
    key_of,
    key_of_item,
)
from laneway.core.permitted.record import Record
from laneway.core.raw import Json


class Way(NamedTuple):
    """How far a device is on its way to VMs, or back."""

    bound: bool
    """The hardware is ready."""
    advertised: bool
    """The kubelet counts it."""
    leaving: bool
    """It is being restored."""


def needed(way: Way) -> bool:
    """Whether VMs have to be able to request a device.

    On its way back only as long as it could still be allocated.
    """
    return way.advertised or (way.bound and not way.leaving)


Lists = Mapping[List, Sequence[Json]]
"""The lists as they are stored; their items may be anything."""


class Merged(NamedTuple):
    """What is to be stored."""

    lists: dict[List, list[Json]]
    record: dict[Key, bool]


def merge(
    present: Lists, record: Record, wanted: Collection[Entry], known: Collection[List] = tuple(List)
) -> Merged:
    """The lists with all wanted entries and none of ours that is not wanted.

    Lists that are not `known` stay as they are: what they need is not known yet.
    """
    lists = {name: list(present.get(name, ())) for name in List}
    kept = {key: replaced for key, replaced in record.items() if key.list not in known}
    for name in known:
        needs = {key_of(entry): entry for entry in sorted(wanted) if entry.list == name}
        ours = {key: replaced for key, replaced in record.items() if key.list == name}
        lists[name], own = _merge_list(name, lists[name], ours, needs)
        kept |= own
    return Merged(lists, kept)


def _merge_list(
    name: List, present: Sequence[Json], ours: Record, needs: Mapping[Key, Entry]
) -> tuple[list[Json], dict[Key, bool]]:
    keys = [key_of_item(name, item) for item in present]
    internal = {
        key for key, item in zip(keys, present, strict=True) if key and not is_external(item)
    }
    there = set(keys)
    own: dict[Key, bool] = {}
    for need in needs:
        if need not in there:
            own[need] = False
        elif need in ours or need in internal:
            own[need] = ours.get(need, True)
    found: list[Json] = []
    placed: set[Key] = set()
    for key, item in zip(keys, present, strict=True):
        if key is None or (key not in own and key not in ours):
            found.append(item)
        elif key in own:
            if key not in placed:
                found.append(_marked(item, external=True))
            placed.add(key)
        elif not is_external(item):
            found.append(item)  # It was made KubeVirt's meanwhile.
        elif ours[key] and key not in placed:
            found.append(_marked(item, external=False))
            placed.add(key)
    found += [item_of(needs[key]) for key in sorted(own) if key not in placed]
    return found, own


def _marked(item: Json, *, external: bool) -> Json:
    """An item whose devices come from another plugin than KubeVirt's own, or do not."""
    return {**item, EXTERNAL: external} if isinstance(item, Mapping) else item
