"""Status conditions, as the controllers of Kubernetes set them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import metadata

if TYPE_CHECKING:
    from kapilite.writes.objects import Object


def set_condition(obj: Object, kind: str, status: str, reason: str, message: str) -> None:
    """Say so in the object's status; a condition that says it already stays as it is."""
    found = obj.setdefault("status", {})
    conditions: list[dict[str, Any]] = found.setdefault("conditions", [])
    new = {"type": kind, "status": status, "reason": reason, "message": message}
    for at, old in enumerate(conditions):
        if old.get("type") == kind:
            if any(old.get(field) != value for field, value in new.items()):
                conditions[at] = _at_now(new)
            return
    conditions.append(_at_now(new))


def _at_now(condition: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": condition["type"],
        "status": condition["status"],
        "lastTransitionTime": metadata.now(),
        "reason": condition["reason"],
        "message": condition["message"],
    }
