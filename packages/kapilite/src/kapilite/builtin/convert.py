"""Objects that are kept in another form than clients see or send: events and secrets.

Events of `v1` and of `events.k8s.io/v1` are the same objects under other field names. They are
stored as `v1`; one form is turned into the other without losing anything either way. The texts of
a secret become its data before anything looks at them: a manager that applies them owns the data.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapilite.kinds import Kind

Object = dict[str, Any]

EVENTS = "events"
SECRETS = "secrets"
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


def take_in(kind: Kind, obj: Object) -> None:
    """Move the texts of a secret to its data in place, as if the client had sent them there.

    Whatever else they are stays, for the decoder to refuse.
    """
    texts, data = obj.get("stringData"), obj.get("data")
    if kind.resource != SECRETS or not isinstance(texts, dict | None):
        return
    if not isinstance(data, dict | None) or not all(
        isinstance(t, str) for t in (texts or {}).values()
    ):
        return
    obj.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(data or {}), **encoded}


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
