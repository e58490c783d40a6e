"""The kinds that are served without a CustomResourceDefinition.

Which there are, by what names people and programs call them, and which columns `kubectl get`
shows; the columns are those of Kubernetes, because people know them by sight. What the objects
look like comes from the table of types.
"""

from __future__ import annotations

from typing import Any

from kapilite.builtin import schemas
from kapilite.kinds import VERBS, Column, Kind, Scale


def _column(name: str, json_path: str = "", kind: str = "string", priority: int = 0) -> Column:
    return Column(name=name, type=kind, json_path=json_path, priority=priority)


def _number(name: str, json_path: str) -> Column:
    return _column(name, json_path, "integer")


def _wide(*columns: str) -> tuple[Column, ...]:
    return tuple(_column(name, priority=1) for name in columns)


# A kind with columns of its own gets no Age by itself.
_AGE = _column("Age", ".metadata.creationTimestamp")
_WORKLOAD = _wide("Containers", "Images", "Selector")
_EVENT = (
    _column("Last Seen"),
    _column("Type", ".type"),
    _column("Reason", ".reason"),
    _column("Object"),
    *_wide("Subobject", "Source"),
    _column("Message"),
    *_wide("First Seen", "Count"),
    Column(name="Name", type="string", json_path=".metadata.name", format="name", priority=1),
)


def _kind(group: str, kind: str, plural: str, *, namespaced: bool = True, **more: Any) -> Kind:
    name = f"{group.partition('.')[0] or 'core'}.v1.{kind}"
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        schema=schemas.of_kind(name),
        **more,
    )


_SCALE = Scale(
    spec_replicas=("spec", "replicas"),
    status_replicas=("status", "replicas"),
    label_selector=("spec", "selector"),
)

KINDS: tuple[Kind, ...] = (
    _kind(
        "",
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        columns=(_column("Status", ".status.phase"), _AGE),
        has_status=True,
        subresources=("finalize",),
    ),
    _kind(
        "",
        "Node",
        "nodes",
        namespaced=False,
        short_names=("no",),
        columns=(
            _column("Status"),
            _column("Roles"),
            _AGE,
            _column("Version", ".status.nodeInfo.kubeletVersion"),
            *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        has_status=True,
    ),
    _kind(
        "",
        "Pod",
        "pods",
        short_names=("po",),
        categories=("all",),
        columns=(
            _column("Ready"),
            _column("Status"),
            _column("Restarts"),
            _AGE,
            *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        has_status=True,
        subresources=("binding", "eviction"),
    ),
    _kind("", "Event", "events", short_names=("ev",), columns=_EVENT),
    _kind(
        "",
        "Secret",
        "secrets",
        columns=(_column("Type", ".type"), _column("Data"), _AGE),
    ),
    _kind("", "ConfigMap", "configmaps", short_names=("cm",), columns=(_column("Data"), _AGE)),
    _kind(
        "",
        "ServiceAccount",
        "serviceaccounts",
        short_names=("sa",),
        columns=(_column("Secrets"), _AGE),
        subresources=("token",),
    ),
    _kind(
        "",
        "Service",
        "services",
        short_names=("svc",),
        categories=("all",),
        columns=(
            _column("Type", ".spec.type"),
            _column("Cluster-IP"),
            _column("External-IP"),
            _column("Port(s)"),
            _AGE,
            *_wide("Selector"),
        ),
        has_status=True,
    ),
    _kind("", "Endpoints", "endpoints", short_names=("ep",), columns=(_column("Endpoints"), _AGE)),
    _kind(
        "",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short_names=("pvc",),
        columns=(
            _column("Status"),
            _column("Volume", ".spec.volumeName"),
            _column("Capacity"),
            _column("Access Modes"),
            _column("StorageClass"),
            _column("VolumeAttributesClass"),
            _AGE,
            _column("VolumeMode", ".spec.volumeMode", priority=1),
        ),
        has_status=True,
    ),
    _kind(
        "apps",
        "Deployment",
        "deployments",
        short_names=("deploy",),
        categories=("all",),
        columns=(
            _column("Ready"),
            _column("Up-to-date"),
            _column("Available"),
            _AGE,
            *_WORKLOAD,
        ),
        has_status=True,
        scale=_SCALE,
    ),
    _kind(
        "apps",
        "ReplicaSet",
        "replicasets",
        short_names=("rs",),
        categories=("all",),
        columns=(
            _number("Desired", ""),
            _number("Current", ""),
            _number("Ready", ""),
            _AGE,
            *_WORKLOAD,
        ),
        has_status=True,
        scale=_SCALE,
    ),
    _kind(
        "apps",
        "StatefulSet",
        "statefulsets",
        short_names=("sts",),
        categories=("all",),
        columns=(_column("Ready"), _AGE, *_wide("Containers", "Images")),
        has_status=True,
        scale=_SCALE,
    ),
    _kind(
        "apps",
        "DaemonSet",
        "daemonsets",
        short_names=("ds",),
        categories=("all",),
        columns=(
            _number("Desired", ""),
            _number("Current", ""),
            _number("Ready", ""),
            _number("Up-to-date", ""),
            _number("Available", ""),
            _column("Node Selector"),
            _AGE,
            *_WORKLOAD,
        ),
        has_status=True,
    ),
    _kind(
        "batch",
        "Job",
        "jobs",
        categories=("all",),
        columns=(
            _column("Status"),
            _column("Completions"),
            _column("Duration"),
            _AGE,
            *_WORKLOAD,
        ),
        has_status=True,
    ),
    _kind(
        "coordination.k8s.io",
        "Lease",
        "leases",
        columns=(_column("Holder", ".spec.holderIdentity"), _AGE),
    ),
    # The same objects as v1 events, see `convert`.
    _kind(
        "events.k8s.io", "Event", "events", short_names=("ev",), columns=_EVENT, view_of="events"
    ),
    _kind(
        "discovery.k8s.io",
        "EndpointSlice",
        "endpointslices",
        columns=(
            _column("AddressType", ".addressType"),
            _column("Ports"),
            _column("Endpoints"),
            _AGE,
        ),
    ),
    _kind(
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        short_names=("netpol",),
        columns=(_column("Pod-Selector"), _AGE),
    ),
    _kind("resource.k8s.io", "DeviceClass", "deviceclasses", namespaced=False, columns=(_AGE,)),
    _kind(
        "resource.k8s.io",
        "ResourceClaim",
        "resourceclaims",
        columns=(_column("State"), _AGE),
        has_status=True,
    ),
    _kind("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", columns=(_AGE,)),
    _kind(
        "resource.k8s.io",
        "ResourceSlice",
        "resourceslices",
        namespaced=False,
        columns=(
            _column("Node", ".spec.nodeName"),
            _column("Driver", ".spec.driver"),
            _column("Pool", ".spec.pool.name"),
            _AGE,
        ),
    ),
    _kind(
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        short_names=("pc",),
        columns=(
            _number("Value", ""),
            _column("Global-Default", "", "boolean"),
            _AGE,
            _column("PreemptionPolicy", ".preemptionPolicy"),
        ),
    ),
    _kind(
        "storage.k8s.io",
        "StorageClass",
        "storageclasses",
        namespaced=False,
        short_names=("sc",),
        columns=(
            _column("Provisioner", ".provisioner"),
            _column("ReclaimPolicy", ".reclaimPolicy"),
            _column("VolumeBindingMode", ".volumeBindingMode"),
            _column("AllowVolumeExpansion"),
            _AGE,
        ),
    ),
    _kind(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short_names=("pdb",),
        columns=(
            _column("Min Available"),
            _column("Max Unavailable"),
            _number("Allowed Disruptions", ".status.disruptionsAllowed"),
            _AGE,
        ),
        has_status=True,
    ),
    _kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        columns=(_column("Created At", "", "date"),),
        has_status=True,
    ),
)
