"""The kinds that are served without a CustomResourceDefinition, and the namespaces that exist.

Their schemas name what people look up with `kubectl explain` and let everything else pass: the
objects are written by programs that Kubernetes itself has taught the format.
"""

from __future__ import annotations

import base64
from typing import Any

from laneway.apiserver.kinds import Column, Kind

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACES = "namespaces"
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PROTECTED_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})

_ANY: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRING = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
_TIME = {"type": "string", "format": "date-time", "nullable": True}


def _object(description: str, **properties: Any) -> dict[str, Any]:
    return {**_ANY, "description": description, "properties": properties}


def _records(*fields: str) -> dict[str, Any]:
    """A list of objects whose fields are texts: one of another type would break typed clients."""
    item = {**_ANY, "properties": dict.fromkeys(fields, _STRING)}
    return {"type": "array", "items": item, "nullable": True}


def _column(name: str, json_path: str, kind: str = "string", priority: int = 0) -> Column:
    return Column(name=name, type=kind, json_path=json_path, priority=priority)


# A kind with columns of its own gets no Age by itself.
_AGE = _column("Age", ".metadata.creationTimestamp", "date")

KINDS: tuple[Kind, ...] = (
    Kind(
        group="",
        version="v1",
        kind="Namespace",
        plural=NAMESPACES,
        singular="namespace",
        namespaced=False,
        short_names=("ns",),
        columns=(_column("Status", ".status.phase"), _AGE),
        has_status=True,
        schema=_object(
            "Namespace provides a scope for Names.",
            spec=_object("What keeps the namespace from being removed."),
            status=_object("The state of the namespace.", phase=_STRING),
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        singular="node",
        namespaced=False,
        short_names=("no",),
        columns=(
            _column("Status", ""),
            _column("Roles", ""),
            _AGE,
            _column("Version", ".status.nodeInfo.kubeletVersion"),
            _column(
                "Internal-IP", '.status.addresses[?(@.type=="InternalIP")].address', priority=1
            ),
            _column("OS-Image", ".status.nodeInfo.osImage", priority=1),
            _column("Kernel-Version", ".status.nodeInfo.kernelVersion", priority=1),
        ),
        has_status=True,
        schema=_object(
            "Node is a machine that runs workloads.",
            spec=_object(
                "How the node is to be used.",
                unschedulable={"type": "boolean"},
                taints={"type": "array", "items": _ANY, "nullable": True},
            ),
            status=_object(
                "What the node reports.",
                capacity=_ANY,
                allocatable=_ANY,
                conditions=_records("type", "status", "reason", "message"),
                addresses=_records("type", "address"),
            ),
        ),
    ),
    # Nothing runs pods here, but `kubectl describe node` asks for them.
    Kind(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        singular="pod",
        namespaced=True,
        short_names=("po",),
        categories=("all",),
        columns=(
            _column("Status", ".status.phase"),
            _AGE,
            _column("IP", ".status.podIP", priority=1),
            _column("Node", ".spec.nodeName", priority=1),
        ),
        has_status=True,
        schema=_object(
            "Pod is a collection of containers that run on a node.",
            spec=_object("What is to run.", nodeName=_STRING),
            status=_object("What runs.", phase=_STRING),
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="Event",
        plural="events",
        singular="event",
        namespaced=True,
        short_names=("ev",),
        columns=(
            _column("Last Seen", ".lastTimestamp", "date"),
            _column("Type", ".type"),
            _column("Reason", ".reason"),
            _column("Object", ""),
            _column("Message", ".message"),
            _column("Count", ".count", "integer", 1),
        ),
        schema=_object(
            "Event is a report of an event somewhere in the cluster.",
            involvedObject=_object("The object that this event is about."),
            reason=_STRING,
            message=_STRING,
            type=_STRING,
            count={"type": "integer"},
            firstTimestamp=_TIME,
            lastTimestamp=_TIME,
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="Secret",
        plural="secrets",
        singular="secret",
        namespaced=True,
        columns=(_column("Type", ".type"), _AGE),
        schema=_object(
            "Secret holds secret data of a certain type.",
            type=_STRING,
            data={**_STRINGS, "nullable": True},
            stringData={**_STRINGS, "nullable": True},
            immutable={"type": "boolean", "nullable": True},
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="ConfigMap",
        plural="configmaps",
        singular="configmap",
        namespaced=True,
        short_names=("cm",),
        schema=_object(
            "ConfigMap holds configuration data for programs to consume.",
            data={**_STRINGS, "nullable": True},
            binaryData={**_STRINGS, "nullable": True},
            immutable={"type": "boolean", "nullable": True},
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="ServiceAccount",
        plural="serviceaccounts",
        singular="serviceaccount",
        namespaced=True,
        short_names=("sa",),
        schema=_object("ServiceAccount is an identity of programs."),
    ),
    Kind(
        group="coordination.k8s.io",
        version="v1",
        kind="Lease",
        plural="leases",
        singular="lease",
        namespaced=True,
        columns=(_column("Holder", ".spec.holderIdentity"), _AGE),
        schema=_object(
            "Lease defines a lease concept.",
            spec=_object(
                "Who holds the lease and for how long.",
                holderIdentity={"type": "string", "nullable": True},
                leaseDurationSeconds={"type": "integer", "nullable": True},
                leaseTransitions={"type": "integer", "nullable": True},
                acquireTime=_TIME,
                renewTime=_TIME,
            ),
        ),
    ),
    Kind(
        group="apiextensions.k8s.io",
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        singular="customresourcedefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        columns=(_column("Created At", ".metadata.creationTimestamp", "string"),),
        has_status=True,
        schema=_object(
            "CustomResourceDefinition represents a resource that should be exposed on the API "
            "server.",
            spec=_object(
                "How the resource looks.",
                group=_STRING,
                scope=_STRING,
                names=_object("The names of the resource."),
                versions={"type": "array", "items": _ANY},
            ),
            status=_object("The state of the definition."),
        ),
    ),
)


def fill_in(kind: Kind, obj: dict[str, Any], *, new: bool) -> None:
    """What the real server adds to objects of these kinds."""
    if kind.resource == "secrets":
        _secret(obj)
    elif kind.resource == NAMESPACES and new:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        labels = obj["metadata"].setdefault("labels", {})
        labels.setdefault("kubernetes.io/metadata.name", obj["metadata"]["name"])


def _secret(obj: dict[str, Any]) -> None:
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        data = obj["data"] = obj.get("data") or {}
        for name, text in texts.items():
            data[name] = base64.b64encode(text.encode()).decode()
