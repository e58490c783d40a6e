"""Delete: what goes at once, what waits for its finalizers, and what goes along.

An object with finalizers is only marked; it goes when the last one is taken away. With an object
go its dependents (found through the index of owner uids), with a CustomResourceDefinition its
objects, with a namespace its content; the two latter wait until all of that is gone. Everything
that one request removes is removed in one transaction, so a crash leaves no orphans.

A foreground deletion is done as a background one: dependents that have no finalizers are gone
when the request is answered, which is what its callers wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.apiserver import builtin, metadata
from laneway.apiserver.errors import ApiError
from laneway.apiserver.events import Key, as_object
from laneway.apiserver.objects import conflict, key_of, not_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.objects import Object
    from laneway.apiserver.registry import Registry
    from laneway.apiserver.store import Store, Stored


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asked for."""

    dry_run: bool = False
    orphan: bool = False
    """Leave the dependents, without this owner."""
    uid: str = ""
    resource_version: str = ""


class Deleted(msgspec.Struct, frozen=True):
    """What became of the object."""

    body: bytes
    gone: bool
    uid: str


class Deletion:
    """The verb delete, and everything that follows from it."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Deleted:
        key = key_of(kind, namespace, name)
        stored = self._store.get(key)
        if stored is None:
            raise not_found(kind, name)
        obj = as_object(stored.body)
        _check_preconditions(kind, name, obj["metadata"], options)
        if key.resource == builtin.NAMESPACES and name in builtin.PROTECTED_NAMESPACES:
            text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise ApiError(403, "Forbidden", text, name=name, kind=builtin.NAMESPACES)
        with self._store.transaction(dry_run=options.dry_run):
            if options.orphan:
                self._orphan(obj["metadata"]["uid"])
            body = self._delete(key, obj, stored)
            gone = self._store.get(key) is None
        return Deleted(body, gone, obj["metadata"]["uid"])

    def remove(self, key: Key, obj: Object, stored: Stored) -> bytes:
        """Take the object out of the store, with all that depends on it."""
        with self._store.transaction():
            body = self._store.commit("DELETED", key, obj, stored).body
            for dependent in self._store.dependents(obj["metadata"]["uid"]):
                self._collect(dependent, obj["metadata"]["uid"])
            if key.namespace:
                self._finish_namespace(key.namespace)
            self._finish_definition(key.resource)
        return body

    def collect_if_orphaned(self, key: Key, obj: Object) -> None:
        """Delete an object all of whose owners are gone already."""
        owners = obj["metadata"].get("ownerReferences") or []
        if owners and not any(self._owner_exists(key, owner) for owner in owners):
            stored = self._store.get(key)
            if stored:
                self._delete(key, as_object(stored.body), stored)

    def _delete(self, key: Key, obj: Object, stored: Stored) -> bytes:
        """Mark the object, or remove it when nothing holds it."""
        with self._store.transaction():
            holds = self._holds_content(key)
            if not holds and not obj["metadata"].get("finalizers"):
                return self.remove(key, obj, stored)
            body = stored.body
            if "deletionTimestamp" not in obj["metadata"]:
                _mark(key, obj, has_generation="generation" in obj["metadata"])
                body = self._store.commit("MODIFIED", key, obj, stored).body
            if holds:
                self._delete_content(key)
            return body

    # Namespaces and CustomResourceDefinitions hold other objects.

    def _holds_content(self, key: Key) -> bool:
        return next(self._content(key), None) is not None

    def _content(self, key: Key) -> Iterator[Key]:
        if key.resource == builtin.CRDS:
            for row in self._store.rows(key.name):
                yield Key(key.name, row.namespace, row.name)
        elif key.resource == builtin.NAMESPACES:
            for resource in sorted(
                {kind.resource for kind in self._registry.kinds if kind.namespaced}
            ):
                for row in self._store.rows(resource, key.name):
                    yield Key(resource, key.name, row.name)

    def _delete_content(self, key: Key) -> None:
        for inner in list(self._content(key)):
            stored = self._store.get(inner)
            if stored:  # else gone with its owner
                self._delete(inner, as_object(stored.body), stored)

    def _finish_namespace(self, namespace: str) -> None:
        self._finish(Key(builtin.NAMESPACES, "", namespace))

    def _finish_definition(self, resource: str) -> None:
        self._finish(Key(builtin.CRDS, "", resource))

    def _finish(self, key: Key) -> None:
        """Remove a holder that only waited for its last object."""
        stored = self._store.get(key)
        if stored is None or b'"deletionTimestamp"' not in stored.body:
            return
        obj = as_object(stored.body)
        meta = obj["metadata"]
        released = "deletionTimestamp" in meta and not meta.get("finalizers")
        if released and not self._holds_content(key):
            self.remove(key, obj, stored)

    # Owners and dependents.

    def _collect(self, key: Key, owner: str) -> None:
        """Delete a dependent whose owner went, unless another owner is left."""
        stored = self._store.get(key)
        if stored is None:
            return
        obj = as_object(stored.body)
        left = [o for o in obj["metadata"].get("ownerReferences") or () if o["uid"] != owner]
        if any(self._owner_exists(key, other) for other in left):
            self._disown(key, obj, stored, owner)
        else:
            self._delete(key, obj, stored)

    def _orphan(self, owner: str) -> None:
        for key in self._store.dependents(owner):
            stored = self._store.get(key)
            if stored:
                self._disown(key, as_object(stored.body), stored, owner)

    def _disown(self, key: Key, obj: Object, stored: Stored, owner: str) -> None:
        left = [o for o in obj["metadata"]["ownerReferences"] if o["uid"] != owner]
        obj["metadata"]["ownerReferences"] = left
        if not left:
            del obj["metadata"]["ownerReferences"]
        self._store.commit("MODIFIED", key, obj, stored)

    def _owner_exists(self, dependent: Key, owner: dict[str, Any]) -> bool:
        kind = self._registry.of_kind(owner["apiVersion"], owner["kind"])
        if kind is None:
            return True  # not ours to judge: nobody can tell that it is gone
        stored = self._store.get(key_of(kind, dependent.namespace, owner["name"]))
        return stored is not None and as_object(stored.body)["metadata"]["uid"] == owner["uid"]


def _mark(key: Key, obj: Object, *, has_generation: bool) -> None:
    meta = obj["metadata"]
    meta["deletionTimestamp"] = metadata.now()
    meta["deletionGracePeriodSeconds"] = 0
    if has_generation:
        meta["generation"] += 1
    if key.resource == builtin.NAMESPACES:
        obj["status"] = {"phase": "Terminating"}


def _check_preconditions(
    kind: Kind, name: str, meta: dict[str, Any], options: DeleteOptions
) -> None:
    for label, wanted, found in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
    ):
        if wanted and wanted != found:
            why = (
                f"Precondition failed: {label} in precondition: {wanted}, "
                f"{label} in object meta: {found}"
            )
            raise conflict(kind, name, why)
