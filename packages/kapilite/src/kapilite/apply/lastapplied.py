"""The way from `kubectl apply` on the client to `kubectl apply --server-side`.

Client-side apply keeps what it applied in an annotation. When `kubectl` then applies on the
server, what the annotation says and the object still has may be taken over without a conflict, and
the annotation follows what is applied.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kapilite.apply import items, trees
from kapilite.apply.fieldset import EMPTY, FieldSet
from kapilite.metadata import ANNOTATIONS_LIMIT

if TYPE_CHECKING:
    from kapilite.apply.types import Type

Object = dict[str, Any]

MANAGER = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def _annotations(obj: Object) -> dict[str, Any]:
    meta = obj.get("metadata")
    found = meta.get("annotations") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def taken_over(kind: Type, live: Object, api_version: str) -> FieldSet:
    """The fields that client-side apply manages and that did not change since."""
    text = _annotations(live).get(ANNOTATION)
    if not text or not isinstance(text, str):
        return EMPTY
    try:
        applied = json.loads(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
            return EMPTY
        items.check(kind, applied)
        changed = trees.compare(kind, applied, live)
    except (ValueError, RecursionError):  # written by a client, so it can be anything
        return EMPTY
    return trees.fields(kind, applied) - changed.touched - changed.removed


def follow(obj: Object, applied: Object) -> None:
    """Bring the annotation of an object, if it has one, up to date with what was applied."""
    if not _annotations(obj).get(ANNOTATION):
        return
    meta = dict(applied.get("metadata") or {})
    kept = {k: v for k, v in _annotations(applied).items() if k != ANNOTATION}
    meta.pop("annotations", None)
    if kept:
        meta["annotations"] = kept
    text = json.dumps(
        {**applied, "metadata": meta}, ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    annotations = {**_annotations(obj), ANNOTATION: text + "\n"}
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items()) > (
        ANNOTATIONS_LIMIT
    ):
        del annotations[ANNOTATION]
    obj["metadata"] = {**obj["metadata"], "annotations": annotations}
