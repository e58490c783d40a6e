"""Subresources as lenses: which part of an object an address shows, and which part it writes.

Reading goes through `show`; what a client then sends is put into the object by `merge`, which
takes no more than the address is for. The object itself is the lens that leaves status alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kapilite.kinds import Kind, Scale
from kapilite.problems import invalid, rejected

Object = dict[str, Any]

STATUS = "status"
SCALE = "scale"
FINALIZE = "finalize"

SCALE_KIND = Kind(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    verbs=("get", "patch", "update"),
    schema={
        "type": "object",
        "description": "Scale is how many replicas a resource should have, and has.",
        "properties": {
            "spec": {
                "type": "object",
                "description": "What is wanted.",
                "properties": {
                    "replicas": {
                        "type": "integer",
                        "format": "int32",
                        "minimum": 0,
                        "default": 0,
                        "description": "How many replicas there should be.",
                    }
                },
            },
            "status": {
                "type": "object",
                "description": "What there is.",
                "properties": {
                    "replicas": {
                        "type": "integer",
                        "format": "int32",
                        "description": "How many replicas were last seen.",
                    },
                    "selector": {
                        "type": "string",
                        "description": "The label selector that finds the replicas, as text.",
                    },
                },
            },
        },
    },
)


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """How one address of an object reads and writes it."""

    name: str = ""
    """Empty for the object itself."""
    kind: Kind
    """What is sent and shown there."""
    show: Callable[[Object], Object]
    merge: Callable[[Object, Object], Object]
    """(the object as it is, what is sent) gives the object to be; the first is left as it was."""
    reviewed: bool = True
    """Webhooks are asked about what is written there."""
    part: Callable[[Object], Object]
    """Of an applied object, what is to be applied to the whole."""


def itself(kind: Kind) -> Subresource:
    """The lens of the object as a whole."""
    hidden = (STATUS,) if kind.has_status else ()
    return Subresource(
        kind=kind,
        show=_whole,
        merge=lambda old, new: _held(kind, old, _all_but(hidden, old, new)),
        part=lambda sent: {key: value for key, value in sent.items() if key not in hidden},
    )


def everything(kind: Kind, name: str) -> Subresource:
    """The lens by which an action writes: nothing is left out, and webhooks were asked before."""
    return Subresource(
        name=name,
        kind=kind,
        show=_whole,
        merge=lambda _, new: new,
        reviewed=False,
        part=_whole,
    )


def of(kind: Kind, name: str) -> Subresource | None:
    """The lens of a subresource, where this kind has it."""
    if name == STATUS and kind.has_status:
        return Subresource(name=name, kind=kind, show=_whole, merge=_status, part=_status_part)
    if name == FINALIZE and name in kind.subresources:
        return Subresource(name=name, kind=kind, show=_whole, merge=_finalizers, part=_whole)
    if name == SCALE and kind.scale is not None:
        scale = kind.scale
        return Subresource(
            name=name,
            kind=msgspec.structs.replace(SCALE_KIND, namespaced=kind.namespaced),
            show=lambda obj: _scale(scale, obj),
            merge=lambda old, new: _rescaled(kind, scale, old, new),
            part=lambda sent: _scale_part(kind, scale, sent),
        )
    return None


def _whole(obj: Object) -> Object:
    return obj


def _all_but(hidden: tuple[str, ...], old: Object, new: Object) -> Object:
    kept = {name: value for name, value in new.items() if name not in hidden}
    return kept | {name: old[name] for name in hidden if name in old}


def _held(kind: Kind, old: Object, new: Object) -> Object:
    """What holds a namespace is not for everybody to change."""
    if FINALIZE not in kind.subresources:
        return new
    return new | {"spec": old.get("spec") or {}}


def _status(old: Object, new: Object) -> Object:
    changed = {name: value for name, value in old.items() if name != STATUS}
    changed["metadata"] = _identity(old, new)
    return changed | ({STATUS: new[STATUS]} if STATUS in new else {})


def _status_part(sent: Object) -> Object:
    return {key: sent[key] for key in ("apiVersion", "kind", "metadata", STATUS) if key in sent}


def _finalizers(old: Object, new: Object) -> Object:
    spec = {**(old.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers")}
    if not spec["finalizers"]:
        del spec["finalizers"]
    return {**old, "metadata": _identity(old, new), "spec": spec}


def _identity(old: Object, new: Object) -> Object:
    """The old metadata, and from the new what makes sure that the right object is meant."""
    sent = new["metadata"]
    checked = ("name", "namespace", "uid", "resourceVersion", "managedFields")
    meta: Object = old["metadata"]
    return meta | {name: sent[name] for name in checked if name in sent}


def _scale(scale: Scale, obj: Object) -> Object:
    meta = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _find(obj, scale.status_replicas) or 0}
    selector = _find(obj, scale.label_selector) if scale.label_selector else None
    if selector:
        status["selector"] = selector_text(selector)
    return {
        "apiVersion": SCALE_KIND.api_version,
        "kind": SCALE_KIND.kind,
        "metadata": {name: meta[name] for name in shown if name in meta},
        "spec": {"replicas": _find(obj, scale.spec_replicas) or 0},
        "status": status,
    }


def selector_text(selector: Any) -> str:
    """Custom resources keep their selector as text, the built-in kinds as an object."""
    if not isinstance(selector, dict):
        return str(selector)
    texts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], ",".join(term.get("values") or ())
        match term["operator"]:
            case "Exists":
                texts.append(key)
            case "DoesNotExist":
                texts.append(f"!{key}")
            case operator:
                texts.append(f"{key} {operator.lower()} ({values})")
    return ",".join(texts)


def _rescaled(kind: Kind, scale: Scale, old: Object, new: Object) -> Object:
    replicas = (new.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        name = old["metadata"]["name"]
        problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise rejected(kind, name, [problem])
    identity = {**new, "metadata": {**new["metadata"]}}
    return {
        **_put(old, scale.spec_replicas, replicas),
        "metadata": _identity(old, identity),
    }


def _scale_part(kind: Kind, scale: Scale, sent: Object) -> Object:
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": sent["metadata"]}
    replicas = (sent.get("spec") or {}).get("replicas")
    return head if replicas is None else _put(head, scale.spec_replicas, replicas)


def _find(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def _put(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    first, *rest = path
    inner = obj.get(first)
    below = inner if isinstance(inner, dict) else {}
    return {**obj, first: _put(below, tuple(rest), value) if rest else value}
