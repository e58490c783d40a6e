"""The event that tells why an owner reference across namespaces does not hold."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kapilite import metadata
from kapilite.storage.events import Key

if TYPE_CHECKING:
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object


def misplaced(store: Store, key: Key, obj: Object, ref: dict[str, Any]) -> None:
    """Say of the object that this owner of it is not where it is looked for."""
    name = f"{key.name}.{uuid.uuid4().hex[:16]}"
    now = metadata.now()
    namespace = key.namespace or "default"
    about = {
        "kind": obj["kind"],
        "namespace": key.namespace,
        "name": key.name,
        "uid": obj["metadata"]["uid"],
        "apiVersion": obj["apiVersion"],
    }
    owner = f"{ref['apiVersion']}/{ref['kind']}, namespace: {key.namespace}, name: {ref['name']}"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now,
        },
        "involvedObject": {field: value for field, value in about.items() if value},
        "reason": "OwnerRefInvalidNamespace",
        "message": (
            f'ownerRef [{owner}, uid: {ref["uid"]}] does not exist in namespace "{key.namespace}"'
        ),
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    store.commit("ADDED", Key("events", namespace, name), event, None)
