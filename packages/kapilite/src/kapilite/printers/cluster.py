"""Nodes and what is there once for the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers.parts import (
    NONE,
    UNKNOWN,
    Cell,
    Object,
    get,
    items,
    mapping,
    of,
    size,
    text,
)

if TYPE_CHECKING:
    from datetime import datetime

_ROLE = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"


def node_status(node: Object, _: datetime) -> str:
    """`Ready`, `NotReady` or `Unknown`, and whether pods may be put there."""
    conditions = items(node, "status", "conditions")
    ready = next((text(c, "status") for c in conditions if get(c, "type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    cordoned = get(node, "spec", "unschedulable") is True
    return f"{word},SchedulingDisabled" if cordoned else word


def node_roles(node: Object, _: datetime) -> str:
    """What follows `node-role.kubernetes.io/` in the node's labels."""
    found = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(_ROLE) for key in found if key.startswith(_ROLE)}
    roles.add(text(found, _OLD_ROLE))
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(kind: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        addresses = items(node, "status", "addresses")
        return next((text(a, "address") for a in addresses if get(a, "type") == kind), NONE)

    return cell


def _info(field: str) -> Cell:
    return lambda node, _: text(node, "status", "nodeInfo", field) or UNKNOWN


def _created(obj: Object, _: datetime) -> str:
    return text(obj, "metadata", "creationTimestamp")


def _claim_state(claim: Object, _: datetime) -> str:
    """`pending`, `allocated,reserved`; a claim that is being deleted says so first."""
    deleted = bool(get(claim, "metadata", "deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if mapping(claim, "status", "allocation"):
        states.append("allocated")
        states += ["reserved"] if items(claim, "status", "reservedFor") else []
    elif not deleted:
        states.append("pending")
    return ",".join(states)


CELLS: dict[tuple[str, str], Cell] = {
    ("customresourcedefinitions.apiextensions.k8s.io", "Created At"): _created,
    ("roles.rbac.authorization.k8s.io", "Created At"): _created,
    ("clusterroles.rbac.authorization.k8s.io", "Created At"): _created,
    ("configmaps", "Data"): size("data", "binaryData"),
    ("nodes", "Container-Runtime"): _info("containerRuntimeVersion"),
    ("nodes", "External-IP"): _address("ExternalIP"),
    ("nodes", "Internal-IP"): _address("InternalIP"),
    ("nodes", "Kernel-Version"): _info("kernelVersion"),
    ("nodes", "OS-Image"): _info("osImage"),
    ("nodes", "Roles"): node_roles,
    ("nodes", "Status"): node_status,
    ("priorityclasses.scheduling.k8s.io", "Global-Default"): lambda obj, _: (
        get(obj, "globalDefault") is True
    ),
    ("priorityclasses.scheduling.k8s.io", "Value"): of("value"),
    ("resourceclaims.resource.k8s.io", "State"): _claim_state,
    ("secrets", "Data"): size("data"),
}
