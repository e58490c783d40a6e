"""ObjectMeta as a schema: the same for every kind, and for resources within others."""

from __future__ import annotations

from typing import Any

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True}
_TEXT = {"type": "string", "nullable": True}
_TIME = {"type": "string", "format": "date-time", "nullable": True}
_OWNER = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "uid": {"type": "string", "minLength": 1},
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": {"type": "integer", "nullable": True},
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": {"type": "integer", "nullable": True},
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "ownerReferences": {"type": "array", "items": _OWNER, "nullable": True},
        "finalizers": {"type": "array", "items": {"type": "string"}, "nullable": True},
        "managedFields": {"type": "array", "nullable": True},
    },
}
