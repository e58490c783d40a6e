"""One stored object, two views: events, which Kubernetes serves in two groups.

`v1` and `events.k8s.io/v1` are the same objects under other field names. They are stored as `v1`;
these functions turn one form into the other without losing anything either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapilite.kinds import Kind

Object = dict[str, Any]

EVENTS = "events"
_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def to_storage(kind: Kind, obj: Object) -> Object:
    """The form in which an object of this kind is kept."""
    return _renamed(obj, _OLD_NAMES, "v1") if _is_view(kind) else obj


def to_view(kind: Kind, obj: Object) -> Object:
    """A stored object in the form that this kind shows."""
    return _renamed(obj, _NEW_NAMES, kind.api_version) if _is_view(kind) else obj


def _is_view(kind: Kind) -> bool:
    return kind.view_of == EVENTS


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    return {names.get(key, key): value for key, value in obj.items()} | {"apiVersion": api_version}
