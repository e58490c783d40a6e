"""Cells of built-in kinds that no path into the object can express.

The texts are those that a cluster prints, because people know them by sight: a node without a
Ready condition is `Unknown`, not blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_ROLE = "node-role.kubernetes.io/"


def _member(value: Any, name: str) -> Any:
    """Objects are stored as they were sent: what should be a map may be anything."""
    return value.get(name) if isinstance(value, dict) else None


def node_status(node: dict[str, Any]) -> str:
    """`Ready`, `NotReady` or `Unknown`, and whether pods may be put there."""
    conditions = _member(_member(node, "status"), "conditions") or ()
    ready = next((_member(c, "status") for c in conditions if _member(c, "type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    cordoned = _member(_member(node, "spec"), "unschedulable") is True
    return f"{word},SchedulingDisabled" if cordoned else word


def node_roles(node: dict[str, Any]) -> str:
    """What follows `node-role.kubernetes.io/` in the node's labels."""
    labels = _member(_member(node, "metadata"), "labels") or {}
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))
    return ",".join(role for role in roles if role) or "<none>"


def event_object(event: dict[str, Any]) -> str:
    """`vgpudevice/node1-000008004`, as kubectl's arguments name an object."""
    about = _member(event, "involvedObject")
    kind, name = (_member(about, key) or "" for key in ("kind", "name"))
    return f"{kind.lower()}/{name}" if name else kind.lower()


CELLS: Mapping[tuple[str, str], Callable[[dict[str, Any]], str]] = {
    ("nodes", "Status"): node_status,
    ("nodes", "Roles"): node_roles,
    ("events", "Object"): event_object,
}
"""By resource and column."""
