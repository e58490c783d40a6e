"""What the server decides about objects of the built-in kinds, beyond defaults.

Filled in after an object is known to be good, from the object and the one it replaces.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import TYPE_CHECKING, Any

from kapilite import metadata
from kapilite.builtin import types

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapilite.kinds import Kind

Object = dict[str, Any]

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_EVICTED_AFTER = 300
_QOS = ("cpu", "memory")


def fill_in(kind: Kind, obj: Object, old: Object | None) -> None:
    """Add what the real server adds to objects of these kinds."""
    name = types.name_of(kind)
    if name and (fill := _FILL.get(name)):
        fill(obj, old)


def _namespace(obj: Object, old: Object | None) -> None:
    if old is None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


def _service(obj: Object, old: Object | None) -> None:
    """The address is made from the uid: it stays the same for the object."""
    spec = obj["spec"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return
    before = old["spec"] if old else {}
    if not spec.get("clusterIP"):
        if before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        else:
            spec["clusterIP"] = str(SERVICE_NETWORK[_hash(obj, SERVICE_NETWORK.num_addresses)])
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind == "ClusterIP":  # what it had as another type
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)


def _hash(obj: Object, limit: int) -> int:
    """A number that stays the same for the object, and is neither 0 nor the last."""
    digest = hashlib.sha256(obj["metadata"].get("uid", "").encode()).digest()
    return 1 + int.from_bytes(digest[:8]) % (limit - 2)


def _pod(obj: Object, old: Object | None) -> None:
    if old is not None:
        return
    spec = obj["spec"]
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, None, "") and _endures(t) for t in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTED_AFTER,
                }
            )
    obj["status"] = {"phase": "Pending", "qosClass": _qos(spec)}


def _endures(toleration: Object) -> bool:
    return toleration.get("effect") in (None, "", "NoExecute")


def _qos(spec: Object) -> str:
    """How hard the pod is to displace, from what its containers request."""
    asked = guaranteed = 0
    everyone = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in everyone:
        resources = container.get("resources") or {}
        limits = {k: v for k, v in (resources.get("limits") or {}).items() if k in _QOS}
        requests = {k: v for k, v in (resources.get("requests") or {}).items() if k in _QOS}
        asked += bool(limits or requests)
        guaranteed += len(limits) == len(_QOS) and requests == limits
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed == len(everyone) else "Burstable"


def _job(obj: Object, old: Object | None) -> None:
    if old is not None or obj["spec"].get("manualSelector"):
        return
    meta, template = obj["metadata"], obj["spec"]["template"]
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (("controller-uid", meta["uid"]), ("job-name", meta["name"])):
        labels.setdefault(key, value)
        labels.setdefault(f"batch.kubernetes.io/{key}", value)
    match = {"batch.kubernetes.io/controller-uid": meta["uid"]}
    obj["spec"].setdefault("selector", {"matchLabels": match})


def _resource_slice(obj: Object, old: Object | None) -> None:
    """A taint without a time is one that comes now; one that was there keeps its time."""
    held = {one.get("name"): one for one in ((old or {}).get("spec") or {}).get("devices") or ()}
    for device in obj["spec"].get("devices") or ():
        before = {_taint(one): one for one in held.get(device["name"], {}).get("taints") or ()}
        for taint in device.get("taints") or ():
            if not taint.get("timeAdded"):
                known = before.get(_taint(taint), {}).get("timeAdded")
                taint["timeAdded"] = known or metadata.now()


def _taint(taint: Object) -> tuple[Any, ...]:
    return taint.get("key"), taint.get("value"), taint.get("effect")


_FILL: dict[str, Callable[[Object, Object | None], None]] = {
    "batch.v1.Job": _job,
    "core.v1.Namespace": _namespace,
    "core.v1.Pod": _pod,
    "core.v1.Service": _service,
    "resource.v1.ResourceSlice": _resource_slice,
}
