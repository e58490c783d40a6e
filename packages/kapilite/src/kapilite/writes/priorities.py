"""A pod's priority: that of its class, of the class for all, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite import metadata
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object

PODS = "pods"
CLASSES = "priorityclasses.scheduling.k8s.io"
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has."""

_ALWAYS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "description": "Used for system critical pods.",
    "preemptionPolicy": "PreemptLowerPriority",
}


def ensure(store: Store) -> None:
    """Make the classes of the system that are missing."""
    for name, value in SYSTEM.items():
        key = Key(CLASSES, "", name)
        if store.get(key) is None:
            meta: Object = {"name": name}
            metadata.for_create(meta, generation=True)
            made = {**_ALWAYS, "metadata": meta, "value": value}
            store.commit("ADDED", key, made, None)


def resolve(store: Store, kind: Kind, pod: Object) -> None:
    """Fill in the priority of a new pod; refuse one that names no class, or another priority."""
    if kind.resource != PODS:
        return
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        stored = store.get(Key(CLASSES, "", name))
        if stored is None:
            raise _forbidden(kind, pod, f"no PriorityClass with name {name} was found")
        found = as_object(stored.body)
    else:
        found = _default(store)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found.get("value", 0)
    if spec.get("priority", value) != value:
        raise _forbidden(
            kind,
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority"))


def _default(store: Store) -> Object:
    """The class of pods that name none; of several the one with the least value."""
    bodies = (row.body for row in store.rows(CLASSES) if b'"globalDefault"' in row.body)
    found = [one for one in map(as_object, bodies) if one.get("globalDefault")]
    return min(found, key=lambda one: one.get("value", 0), default={})


def _forbidden(kind: Kind, pod: Object, why: str) -> ApiError:
    name = pod["metadata"].get("name", "")
    text = f'{kind.resource} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", text, name=name, group=kind.group, kind=kind.plural)
