"""The values that Kubernetes fills in where a client leaves a field out.

A default that holds wherever the struct occurs is a line of the table and becomes part of the
schema; one that depends on other fields is a function. Both are applied before an object is
checked, and again to what is stored already whenever it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Object = dict[str, Any]

_MODE = 0o644
_TIMING = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}

_BY_STRUCT: dict[str, dict[str, Any]] = {
    "admissionregistration.v1.MutatingWebhook": {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 10,
    },
    "admissionregistration.v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.ServiceReference": {"port": 443},
    "admissionregistration.v1.ValidatingWebhook": {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    },
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.DeploymentSpec": {
        "progressDeadlineSeconds": 600,
        "replicas": 1,
        "revisionHistoryLimit": 10,
    },
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.ReplicaSetSpec": {"replicas": 1},
    "apps.v1.RollingUpdateDaemonSet": {"maxSurge": 0, "maxUnavailable": 1},
    "apps.v1.RollingUpdateDeployment": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    "apps.v1.StatefulSetSpec": {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
        "replicas": 1,
        "revisionHistoryLimit": 10,
    },
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "authentication.v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "batch.v1.JobSpec": {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": False,
    },
    "core.v1.ConfigMapVolumeSource": {"defaultMode": _MODE},
    "core.v1.Container": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.DownwardAPIVolumeSource": {"defaultMode": _MODE},
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core.v1.PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    "core.v1.Probe": _TIMING,
    "core.v1.ProjectedVolumeSource": {"defaultMode": _MODE},
    "core.v1.RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": {"defaultMode": _MODE},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.ServicePort": {"protocol": "TCP"},
    "core.v1.ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "rbac.v1.RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
    "resource.v1.DeviceSubRequest": {"allocationMode": "ExactCount"},
    "resource.v1.DeviceToleration": {"operator": "Equal"},
    "resource.v1.ExactDeviceRequest": {"allocationMode": "ExactCount"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}

DEFAULTS: dict[tuple[str, str], Any] = {
    (owner, field): value for owner, fields in _BY_STRUCT.items() for field, value in fields.items()
}
"""By struct and field."""


def dependent(name: str, obj: Object) -> None:
    """Fill in what depends on other fields; `name` is the struct of the object's kind."""
    if fill := _DEPENDENT.get(name):
        fill(obj)
    spec = pod_spec(name, obj)
    if spec is not None:
        _pod_spec(spec)


def pod_spec(name: str, obj: Object) -> Object | None:
    """What an object says about the pods that it is, or makes."""
    if name == "core.v1.Pod":
        return _map(obj, "spec")
    if name in _TEMPLATED:
        return _map(_map(_map(obj, "spec"), "template"), "spec")
    return None


_TEMPLATED = frozenset(
    {
        "apps.v1.DaemonSet",
        "apps.v1.Deployment",
        "apps.v1.ReplicaSet",
        "apps.v1.StatefulSet",
        "batch.v1.Job",
    }
)


def containers(spec: Object) -> Iterator[Object]:
    """All containers of a pod, those of its start included."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def _pod_spec(spec: Object) -> None:
    for container in containers(spec):
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort", 0))
    for volume in spec.get("volumes") or ():
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The older name of the field is kept in step.
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2].partition("@")[0]
    tag = last.partition(":")[2]
    pinned = "@" in image or (tag and tag != "latest")
    return "IfNotPresent" if pinned else "Always"


def _pod(pod: Object) -> None:
    spec = _map(pod, "spec")
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        resources = _map(container, "resources")
        if limits := resources.get("limits"):
            requests = resources.setdefault("requests", {})
            for what, amount in limits.items():
                requests.setdefault(what, amount)
    _map(pod, "status").setdefault("phase", "Pending")


def _node(node: Object) -> None:
    status = _map(node, "status")
    if status.get("capacity"):
        status.setdefault("allocatable", dict(status["capacity"]))


def _deployment(obj: Object) -> None:
    strategy = _map(_map(obj, "spec"), "strategy")
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _daemon_set(obj: Object) -> None:
    strategy = _map(_map(obj, "spec"), "updateStrategy")
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _stateful_set(obj: Object) -> None:
    strategy = _map(_map(obj, "spec"), "updateStrategy")
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _job(obj: Object) -> None:
    spec = _map(obj, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _service(obj: Object) -> None:
    spec = _map(obj, "spec")
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    kind = spec.get("type", "ClusterIP")
    if spec.get("sessionAffinity") == "ClientIP":
        client = _map(_map(spec, "sessionAffinityConfig"), "clientIP")
        client.setdefault("timeoutSeconds", 10800)
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _network_policy(obj: Object) -> None:
    spec = _map(obj, "spec")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _namespace(obj: Object) -> None:
    meta = obj["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": name}


def _binding(obj: Object) -> None:
    people = (one for one in obj.get("subjects") or () if one.get("kind") in ("User", "Group"))
    for reference in (_map(obj, "roleRef"), *people):
        reference["apiGroup"] = reference.get("apiGroup") or "rbac.authorization.k8s.io"


def _map(obj: Object, name: str) -> Object:
    value = obj.get(name)
    if not isinstance(value, dict):
        value = obj[name] = {}
    return value


def _claim(obj: Object) -> None:
    _claimed(_map(obj, "spec"))


def _claim_template(obj: Object) -> None:
    _claimed(_map(_map(obj, "spec"), "spec"))


def _claimed(spec: Object) -> None:
    """Of how many devices: of one, unless another way to count is given."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None and one.get("allocationMode") == "ExactCount":
                one.setdefault("count", 1)


_DEPENDENT: dict[str, Callable[[Object], None]] = {
    "apps.v1.DaemonSet": _daemon_set,
    "apps.v1.Deployment": _deployment,
    "apps.v1.StatefulSet": _stateful_set,
    "batch.v1.Job": _job,
    "core.v1.Namespace": _namespace,
    "core.v1.Node": _node,
    "core.v1.Pod": _pod,
    "core.v1.Service": _service,
    "networking.v1.NetworkPolicy": _network_policy,
    "rbac.v1.ClusterRoleBinding": _binding,
    "rbac.v1.RoleBinding": _binding,
    "resource.v1.ResourceClaim": _claim,
    "resource.v1.ResourceClaimTemplate": _claim_template,
}
