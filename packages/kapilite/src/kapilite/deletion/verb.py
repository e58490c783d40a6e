"""Delete one object: remove it, or mark it and wait for what holds it.

Finalizers hold an object until the last is taken away; the propagation policy is kept on the
object as one of two finalizers, so what a client requested outlives a crash. A pod that is bound
to a node is marked, and goes when its kubelet deletes it with a grace of 0. Namespaces and
CustomResourceDefinitions are only marked here: their content goes first.

Rules, texts and answers are those of Kubernetes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite import builtin, metadata
from kapilite.deletion import definitions
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object
from kapilite.writes.objects import key_of, not_found
from kubebasics.timestamps import timestamp

if TYPE_CHECKING:
    from kapilite.deletion.options import DeleteOptions
    from kapilite.kinds import Kind
    from kapilite.storage.events import EventType
    from kapilite.storage.store import Store, Stored
    from kapilite.writes.objects import Object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
PODS = "pods"

_ORPHANED_BY_DEFAULT = frozenset({"replicationcontrollers", "jobs.batch"})
_WITHOUT_DEPENDENTS = frozenset({"events", "events.events.k8s.io"})
_SHOWN_WHEN_GONE = frozenset(
    {
        PODS,
        "persistentvolumeclaims",
        "persistentvolumes",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "storageclasses.storage.k8s.io",
    }
)
"""Kinds whose deletion is answered with the object, and not with a Status."""


class Stale(Exception):  # noqa: N818 - an answer, not an error
    """The object is no longer the one that was seen; look again."""


class Deleted(msgspec.Struct, frozen=True):
    """What became of the object, and how to answer."""

    body: bytes
    gone: bool
    uid: str
    code: int = 200
    shown: bool = True
    """The answer is the object; if not, it is a Status of success that names it."""


def look(
    store: Store, kind: Kind, namespace: str, name: str, options: DeleteOptions
) -> tuple[Object, Stored]:
    """The object to be deleted. Raises NotFound, and Conflict when it is not the one meant."""
    stored = store.get(key_of(kind, namespace, name))
    if stored is None:
        raise not_found(kind, name)
    obj = as_object(stored.body)
    _check_preconditions(kind, name, obj["metadata"], options)
    if kind.resource == builtin.NAMESPACES and name in builtin.PROTECTED_NAMESPACES:
        text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        raise ApiError(403, "Forbidden", text, name=name, kind=builtin.NAMESPACES)
    return obj, stored


def delete(store: Store, key: Key, options: DeleteOptions, stored: Stored) -> Deleted:
    """Mark the object, or remove it when nothing holds it."""
    obj = as_object(stored.body)
    meta = obj["metadata"]
    with store.transaction(dry_run=options.dry_run):
        body, gone = _delete(store, key, options, stored, obj)
    waits = not gone and options.orphan is False
    shown = not gone or key.resource in _SHOWN_WHEN_GONE
    return Deleted(body, gone, meta["uid"], 202 if waits else 200, shown)


def is_released(resource: str, obj: Object) -> bool:
    """Whether nothing holds a deleted object any more, so that an update removes it."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not (resource == builtin.NAMESPACES and (obj.get("spec") or {}).get("finalizers"))
    )


def settle(store: Store, key: Key, obj: Object, stored: Stored) -> bytes:
    """Store a changed object, or remove it when it is released by the change."""
    change: EventType = "DELETED" if is_released(key.resource, obj) else "MODIFIED"
    return store.commit(change, key, obj, stored).body


def _delete(
    store: Store, key: Key, options: DeleteOptions, stored: Stored, obj: Object
) -> tuple[bytes, bool]:
    meta = obj["metadata"]
    first = "deletionTimestamp" not in meta
    if key.resource == builtin.NAMESPACES:
        if first:
            meta["deletionTimestamp"] = metadata.now()
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            _set_finalizers(meta, _finalizers(key.resource, meta, options))
            return store.commit("MODIFIED", key, obj, stored).body, False
        if (obj.get("spec") or {}).get("finalizers"):
            return stored.body, False
    if key.resource == builtin.CRDS and first:
        definitions.mark(obj)
        return store.commit("MODIFIED", key, obj, stored).body, False
    grace = None
    if key.resource == PODS:
        if not first and _keeps_its_grace(meta, options):
            return stored.body, False
        grace = _end_gracefully(obj, options)
    finalizers = _finalizers(key.resource, meta, options)
    _set_finalizers(meta, finalizers)
    if grace is None and finalizers:
        _mark(meta)
    if finalizers or grace:
        if obj == as_object(stored.body):
            return stored.body, False
        return store.commit("MODIFIED", key, obj, stored).body, False
    return store.commit("DELETED", key, obj, stored).body, True


def _mark(meta: dict[str, Any]) -> None:
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = metadata.now()
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = 0


def _keeps_its_grace(meta: dict[str, Any], options: DeleteOptions) -> bool:
    """A grace that runs can only be made shorter."""
    before = meta.get("deletionGracePeriodSeconds")
    return before is not None and (options.grace is None or options.grace >= before)


def _end_gracefully(pod: Object, options: DeleteOptions) -> int | None:
    """Give the pod its time to end; None when it is marked and has no such time."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    if "deletionTimestamp" in meta:
        before = meta.get("deletionGracePeriodSeconds")
        if before is None or options.grace is None:
            return None
        began = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=before)
        grace = options.grace
    else:
        began = datetime.now(UTC)
        grace = spec.get("terminationGracePeriodSeconds") or 0
        if options.grace is not None:
            grace = options.grace
        phase = (pod.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
            grace = 0
        if meta.get("generation"):
            meta["generation"] += 1
    grace = 1 if grace < 0 else min(grace, _LONGEST_GRACE)
    meta["deletionTimestamp"] = timestamp(began + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    return grace


_LONGEST_GRACE = 100 * 365 * 86400
"""What a date can hold."""


def _finalizers(resource: str, meta: dict[str, Any], options: DeleteOptions) -> list[str]:
    """The object's finalizers with the one that says what becomes of the dependents."""
    found: list[str] = meta.get("finalizers") or []
    others = [name for name in found if name not in (ORPHAN, FOREGROUND)]
    if resource in _WITHOUT_DEPENDENTS:
        return others
    if options.orphan is not None:
        return [*others, ORPHAN] if options.orphan else others
    if options.policy:
        wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.policy, [])
        return others + wanted
    if any(name in found for name in (ORPHAN, FOREGROUND)):
        return found
    return [*others, ORPHAN] if resource in _ORPHANED_BY_DEFAULT else others


def _set_finalizers(meta: dict[str, Any], finalizers: list[str]) -> None:
    if finalizers:
        if set(meta.get("finalizers") or ()) != set(finalizers):
            meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _check_preconditions(
    kind: Kind, name: str, meta: dict[str, Any], options: DeleteOptions
) -> None:
    for label, wanted, found, why in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    ):
        if wanted and wanted != found:
            text = (
                f"the {label} in the precondition ({wanted}) does not match the {label} in record "
                f"({found}). The object might have been {why}"
            )
            raise _conflict(kind, name, text)


def _conflict(kind: Kind, name: str, why: str) -> ApiError:
    """As Kubernetes words it here, with the kind where the resource is meant."""
    what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    group = {"group": kind.group} if kind.group else {}
    return ApiError(409, "Conflict", text, name=name, **group, kind=kind.kind)
