"""Create, update and patch: one object, one transaction.

A write takes the object in, fills in what the server decides, checks it and commits it. A write
that changes nothing commits nothing, so it wakes nobody. An update sees the object it replaces and
is refused when the client had seen another (`Conflict`). The status subresource writes nothing but
status, and the object itself everything but status. A dry run does all of it and rolls back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.apiserver import builtin, crds, metadata
from laneway.apiserver.errors import ApiError
from laneway.apiserver.events import Key, as_object, in_version
from laneway.apiserver.objects import (
    MODIFIED,
    Object,
    Options,
    Outcome,
    check,
    complete,
    conflict,
    desired,
    has_generation,
    key_of,
    not_found,
    take_in,
    to_storage,
)
from laneway.apiserver.problems import invalid, rejected
from laneway.apiserver.validation import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.apiserver.deletion import Deletion
    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.registry import Registry
    from laneway.apiserver.store import Store, Stored

STATUS = "status"


class Resources:
    """The writing verbs but delete."""

    def __init__(self, store: Store, registry: Registry, deletion: Deletion) -> None:
        self._store = store
        self._registry = registry
        self._deletion = deletion

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        stored = self._store.get(key_of(kind, namespace, name))
        if stored is None:
            raise not_found(kind, name)
        return stored

    def create(self, kind: Kind, namespace: str, sent: Object, options: Options) -> Outcome:
        obj = take_in(kind, namespace, sent)
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise ApiError(
                400, "BadRequest", "resourceVersion should not be set on objects to be created"
            )
        metadata.for_create(meta, generation=has_generation(kind))
        if kind.namespaced:
            self._require_namespace(kind, namespace, meta.get("name", ""))
        if kind.custom and kind.has_status:
            obj.pop(STATUS, None)
        warnings = complete(kind, obj, options)
        check(kind, obj, None, self._registry)
        self._settle(kind, obj, None)
        key = key_of(kind, namespace, meta["name"])
        with self._store.transaction(dry_run=options.dry_run):
            if self._store.get(key):
                text = f'{kind.resource} "{key.name}" already exists'
                details = {"name": key.name, "group": kind.group, "kind": kind.plural}
                raise ApiError(409, "AlreadyExists", text, **details)
            stored = self._store.commit("ADDED", key, to_storage(kind, obj), None)
        if options.dry_run:
            del meta["resourceVersion"]
            return Outcome(msgspec.json.encode(obj), warnings)
        self._deletion.collect_if_orphaned(key, obj)
        return Outcome(stored.body, warnings)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        options: Options,
        *,
        subresource: str = "",
        unconditional: bool = True,
    ) -> Outcome:
        """Replace the object by what `change` makes of it.

        Unless `unconditional`, the result must say which resourceVersion it is based on.
        """
        stored = self.get(kind, namespace, name)
        body = in_version(stored.body, kind.api_version)
        old = as_object(body)
        # A patch shares parts with what it is applied to, and those are changed in place below.
        obj = take_in(kind, namespace, change(as_object(body)))
        self._match(kind, name, obj, old, unconditional=unconditional)
        obj = _isolated(kind, obj, old, subresource)
        warnings = complete(kind, obj, options)
        _restore(kind, obj, old)
        check(kind, obj, old, self._registry)
        self._settle(kind, obj, old)
        if has_generation(kind) and not same(desired(kind, obj), desired(kind, old)):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if same(obj, old):
            return Outcome(stored.body, warnings)
        key = key_of(kind, namespace, name)
        with self._store.transaction(dry_run=options.dry_run):
            new = to_storage(kind, obj)
            if _is_released(obj):
                result = self._deletion.remove(key, new, stored)
            else:
                result = self._store.commit("MODIFIED", key, new, stored).body
        if options.dry_run:
            obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            return Outcome(msgspec.json.encode(obj), warnings)
        if obj["metadata"].get("ownerReferences") != old["metadata"].get("ownerReferences"):
            self._deletion.collect_if_orphaned(key, obj)
        return Outcome(result, warnings)

    def _require_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        stored = self._store.get(Key(builtin.NAMESPACES, "", namespace))
        if stored is None:
            text = f'namespaces "{namespace}" not found'
            raise ApiError(404, "NotFound", text, name=namespace, kind=builtin.NAMESPACES)
        if b'"deletionTimestamp"' not in stored.body:
            return
        if "deletionTimestamp" in as_object(stored.body)["metadata"]:
            text = (
                f'{kind.resource} "{name}" is forbidden: unable to create new content in '
                f"namespace {namespace} because it is being terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {"name": name, "group": kind.group, "kind": kind.plural, "causes": [cause]}
            raise ApiError(403, "Forbidden", text, **details)

    @staticmethod
    def _match(kind: Kind, name: str, obj: Object, old: Object, *, unconditional: bool) -> None:
        meta, before = obj["metadata"], old["metadata"]
        if meta.setdefault("name", name) != name:
            text = (
                f"the name of the object ({meta['name']}) does not match "
                f"the name on the URL ({name})"
            )
            raise ApiError(400, "BadRequest", text)
        if not meta.get("resourceVersion") and not unconditional:
            field = "metadata.resourceVersion"
            problem = invalid(field, 0, "must be specified for an update")
            raise rejected(kind, name, [problem])
        if meta.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            raise conflict(kind, name, MODIFIED)
        if meta.get("uid", before["uid"]) != before["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {meta['uid']}, "
                f"UID in object meta: {before['uid']}"
            )
            raise conflict(kind, name, why)

    @staticmethod
    def _settle(kind: Kind, obj: Object, old: Object | None) -> None:
        """The parts that follow from the others, of an object that is known to be good."""
        if kind.resource == builtin.CRDS:
            obj[STATUS] = crds.established(obj, old)
        builtin.fill_in(kind, obj, new=old is None)


def _isolated(kind: Kind, obj: Object, old: Object, subresource: str) -> Object:
    """Only the part of the object that this address writes."""
    if subresource == STATUS:
        changed = {name: value for name, value in old.items() if name != STATUS}
        changed["metadata"] = dict(old["metadata"])
        return changed | ({STATUS: obj[STATUS]} if STATUS in obj else {})
    if not kind.has_status:
        return obj
    kept = {name: value for name, value in obj.items() if name != STATUS}
    return kept | ({STATUS: old[STATUS]} if STATUS in old else {})


def _restore(kind: Kind, obj: Object, old: Object) -> None:
    metadata.for_update(obj["metadata"], old["metadata"])
    if kind.resource == builtin.NAMESPACES:
        obj["spec"] = old.get("spec", {})


def _is_released(obj: Object) -> bool:
    """Whether the last finalizer of a deleted object was just taken away."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and not meta.get("finalizers")
