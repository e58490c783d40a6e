"""Which work follows from a change.

Called for every change inside its transaction, so it is quick for the common ones: an object
without owners, that is not being deleted, in a namespace that stays. A change that must not be,
since it would add to what is being emptied, is refused here, where nothing can come in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import builtin
from kapilite.deletion import definitions
from kapilite.deletion.verb import FOREGROUND, ORPHAN
from kapilite.storage.events import Key, as_object
from kapilite.writes.objects import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.registry import Registry
    from kapilite.storage.events import Event, EventType
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object

Meta = dict[str, Any]


class Follow:
    """Knows the namespaces and definitions that are being emptied."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._emptied: set[Key] = set()
        for resource in (builtin.NAMESPACES, builtin.CRDS):
            for row in store.rows(resource):
                self._note(Key(resource, "", row.name), row.body)
        store.on_commit(self._seen)

    def __call__(
        self, change: EventType, key: Key, new: Object, before: bytes | None
    ) -> Iterator[tuple[Key, str]]:
        meta: Meta = new["metadata"]
        owned = before is not None and b'"ownerReferences"' in before
        if owned or "ownerReferences" in meta:
            old = as_object(before)["metadata"] if before is not None else {}
            yield from self._of_owners(change, key, meta, old)
        if change == "DELETED":
            if self._store.dependents(meta["uid"], limit=1):
                yield key, meta["uid"]
        elif "deletionTimestamp" in meta:
            yield from self._of_deletion(key, new, before)
        if key.resource == builtin.CRDS and change == "ADDED":
            yield key, ""
        if self._emptied:
            yield from self._of_content(change, key)

    def _of_content(self, change: EventType, key: Key) -> Iterator[tuple[Key, str]]:
        namespace = Key(builtin.NAMESPACES, "", key.namespace)
        definition = Key(builtin.CRDS, "", key.resource)
        kind = self._registry.of_resource(key.resource)
        if definition in self._emptied and change == "ADDED" and kind is not None:
            raise definitions.refused(kind)
        yield from ((key, "") for key in (namespace, definition) if key in self._emptied)

    def _of_owners(
        self, change: EventType, key: Key, meta: Meta, old: Meta
    ) -> Iterator[tuple[Key, str]]:
        refs = [] if change == "DELETED" else meta.get("ownerReferences") or []
        before = old.get("ownerReferences") or []
        if refs and (change == "ADDED" or refs != before):
            yield key, ""
        # An owner that waits for its dependents looks again when one no longer blocks it.
        blocking = {ref["uid"] for ref in refs if ref.get("blockOwnerDeletion")}
        for ref in before:
            if ref["uid"] not in blocking and (owner := self._waiting(key, ref)):
                yield owner, ""

    def _waiting(self, dependent: Key, ref: Meta) -> Key | None:
        kind = self._registry.of_kind(ref["apiVersion"], ref["kind"])
        if kind is None:
            return None
        key = key_of(kind, dependent.namespace, ref["name"])
        stored = self._store.get(key)
        return key if stored is not None and FOREGROUND.encode() in stored.body else None

    @staticmethod
    def _of_deletion(key: Key, new: Object, before: bytes | None) -> Iterator[tuple[Key, str]]:
        meta: Meta = new["metadata"]
        old: Object = as_object(before) if before is not None else {"metadata": {}}
        first = "deletionTimestamp" not in old["metadata"]
        had = () if first else old["metadata"].get("finalizers") or ()
        begun = [name for name in meta.get("finalizers") or () if name not in had]
        if ORPHAN in begun or FOREGROUND in begun:
            yield key, ""
        if FOREGROUND in begun:
            yield key, meta["uid"]
        if key.resource in (builtin.NAMESPACES, builtin.CRDS) and (
            first or new.get("spec") != old.get("spec")
        ):
            yield key, ""

    def _seen(self, event: Event) -> None:
        if event.key.resource in (builtin.NAMESPACES, builtin.CRDS):
            if event.change == "DELETED":
                self._emptied.discard(event.key)
            else:
                self._note(event.key, event.body)

    def _note(self, key: Key, body: bytes) -> None:
        if b'"deletionTimestamp"' in body and "deletionTimestamp" in as_object(body)["metadata"]:
            self._emptied.add(key)
