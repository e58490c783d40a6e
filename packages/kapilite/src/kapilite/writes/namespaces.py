"""The rule that namespaced objects need a namespace that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.builtin import NAMESPACES
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.storage.store import Store


def require(store: Store, kind: Kind, namespace: str, name: str) -> None:
    """Refuse a new object in a namespace that is not there, or is going."""
    if not kind.namespaced:
        return
    stored = store.get(Key(NAMESPACES, "", namespace))
    if stored is None:
        text = f'namespaces "{namespace}" not found'
        raise ApiError(404, "NotFound", text, name=namespace, kind=NAMESPACES)
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
