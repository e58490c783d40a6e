"""Owners and dependents: what an owner reference means at this moment.

An owner is absent when nothing of its kind and name in the dependent's namespace (or in none, of
a cluster-scoped kind) has its uid. One whose kind is not served may exist for all we know. A
cluster-scoped object cannot be owned by a namespaced one: such a reference cannot be judged, and
the object stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kapilite import builtin
from kapilite.deletion.verb import FOREGROUND
from kapilite.storage.events import as_object
from kapilite.writes.objects import key_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from kapilite.registry import Registry
    from kapilite.storage.events import Key
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object

Reference = dict[str, Any]


class Owners(msgspec.Struct):
    """An object's owner references, by what became of the owners."""

    solid: list[Reference] = msgspec.field(default_factory=list)
    absent: list[Reference] = msgspec.field(default_factory=list)
    waiting: list[Reference] = msgspec.field(default_factory=list)
    """Their owners wait in the foreground for their dependents to go."""
    unclear: bool = False


def references(obj: Object) -> Sequence[Reference]:
    return obj["metadata"].get("ownerReferences") or ()


def is_waiting(obj: Object) -> bool:
    """Whether the object is deleted after its dependents."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and FOREGROUND in (meta.get("finalizers") or ())


def classify(store: Store, registry: Registry, key: Key, obj: Object) -> Owners:
    found = Owners()
    for ref in references(obj):
        kind = registry.of_kind(ref["apiVersion"], ref["kind"])
        if kind is None or (kind.namespaced and not key.namespace):
            found.unclear = True
            continue
        stored = store.get(key_of(kind, key.namespace, ref["name"]))
        owner = as_object(stored.body) if stored is not None else None
        if owner is None or owner["metadata"]["uid"] != ref["uid"]:
            found.absent.append(ref)
        elif is_waiting(owner):
            found.waiting.append(ref)
        else:
            found.solid.append(ref)
    return found


def misplaced(store: Store, registry: Registry, key: Key, obj: Object) -> Reference | None:
    """A reference to an owner in another namespace, or from a cluster-scoped object to any."""
    for ref in references(obj):
        kind = registry.of_kind(ref["apiVersion"], ref["kind"])
        if kind is None or not kind.namespaced:
            continue
        if not key.namespace:
            return ref
        if store.get(key_of(kind, key.namespace, ref["name"])) is not None:
            continue
        for row in store.rows(builtin.NAMESPACES):
            stored = store.get(key_of(kind, row.name, ref["name"]))
            if stored is not None and as_object(stored.body)["metadata"]["uid"] == ref["uid"]:
                return ref
    return None


def disown(obj: Object, uids: Container[str]) -> None:
    """Take the references to these owners away."""
    meta = obj["metadata"]
    meta["ownerReferences"] = [ref for ref in meta["ownerReferences"] if ref["uid"] not in uids]
    if not meta["ownerReferences"]:
        del meta["ownerReferences"]


def unblock(obj: Object) -> None:
    """Let no owner wait for this object."""
    for ref in references(obj):
        if "blockOwnerDeletion" in ref:
            ref["blockOwnerDeletion"] = False
