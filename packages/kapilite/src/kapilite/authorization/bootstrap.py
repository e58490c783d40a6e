"""The ClusterRoles and ClusterRoleBindings that every cluster has.

They are made when they are missing, and reconciled at every start: permissions, subjects, labels
and annotations that have been taken away come back, additions stay, and a binding to another role
is made again. To have an object left alone, set its annotation
`rbac.authorization.kubernetes.io/autoupdate` to `false`.

`admin`, `edit` and `view` are aggregated: the roles `system:aggregate-to-*` give them their rules,
and so may others with the same labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kapilite import metadata
from kapilite.authn.users import (
    AUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
)
from kapilite.authorization import rules
from kapilite.authorization.authorizer import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
)
from kapilite.authorization.escalation import uncovered
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.storage.store import Store

Object = dict[str, Any]

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")


def _rule(verbs: Sequence[str], group: str, *resources: str) -> Object:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _get(*urls: str) -> Object:
    return {"verbs": ["get"], "nonResourceURLs": list(urls)}


def _object(kind: str, name: str, labels: dict[str, str] | None = None, **body: Any) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": _LABELS | (labels or {}),
            "annotations": {AUTOUPDATE: "true"},
        },
        **body,
    }


def _role(name: str, *granted: Object, into: str = "") -> Object:
    labels = {f"{_AGGREGATE}{into}": "true"} if into else None
    return _object("ClusterRole", name, labels, rules=list(granted))


def _gathering(name: str, *, into: str = "") -> Object:
    selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
    labels = {f"{_AGGREGATE}{into}": "true"} if into else None
    rule = {"clusterRoleSelectors": [selector]}
    return _object("ClusterRole", name, labels, aggregationRule=rule, rules=[])


def _binding(role: str, *groups: str) -> Object:
    subjects = [{"apiGroup": GROUP, "kind": "Group", "name": name} for name in groups]
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    return _object("ClusterRoleBinding", role, subjects=subjects, roleRef=ref)


_APPS = ("daemonsets", "deployments", "replicasets", "statefulsets")
_SCALED = ("deployments/scale", "replicasets/scale", "statefulsets/scale")

_ADMIN = (
    _rule(["create"], "authorization.k8s.io", "localsubjectaccessreviews"),
    _rule([*_READ, *_WRITE], GROUP, "rolebindings", "roles"),
)
_EDIT = (
    _rule(
        _READ,
        "",
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "secrets",
        "services/proxy",
    ),
    _rule(["impersonate"], "", "serviceaccounts"),
    _rule(_WRITE, "", "pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"),
    _rule(["create"], "", "pods/eviction"),
    _rule(
        _WRITE,
        "",
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ),
    _rule(["create"], "", "serviceaccounts/token"),
    _rule(_WRITE, "apps", *_APPS, *_SCALED, "deployments/rollback"),
    _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    _rule(_WRITE, "batch", "cronjobs", "jobs"),
    _rule(_WRITE, "policy", "poddisruptionbudgets"),
    _rule(_WRITE, "networking.k8s.io", "ingresses", "networkpolicies"),
    _rule([*_READ, *_WRITE], "coordination.k8s.io", "leases"),
)
_VIEW = (
    _rule(
        _READ,
        "",
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
    ),
    _rule(
        _READ,
        "",
        "bindings",
        "events",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
    ),
    _rule(_READ, "", "namespaces"),
    _rule(_READ, "discovery.k8s.io", "endpointslices"),
    _rule(
        _READ,
        "apps",
        "controllerrevisions",
        *_APPS,
        *_SCALED,
        *(f"{name}/status" for name in _APPS),
    ),
    _rule(_READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
    _rule(_READ, "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
    _rule(_READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
    _rule(_READ, "networking.k8s.io", "ingresses", "ingresses/status", "networkpolicies"),
)
_PROBES = ("/healthz", "/livez", "/readyz")

OBJECTS: tuple[Object, ...] = (
    _role(
        "cluster-admin",
        _rule(["*"], "*", "*"),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ),
    _gathering("admin"),
    _gathering("edit", into="admin"),
    _gathering("view", into="edit"),
    _role("system:aggregate-to-admin", *_ADMIN, into="admin"),
    _role("system:aggregate-to-edit", *_EDIT, into="edit"),
    _role("system:aggregate-to-view", *_VIEW, into="view"),
    _role(
        "system:auth-delegator",
        _rule(["create"], "authentication.k8s.io", "tokenreviews"),
        _rule(["create"], "authorization.k8s.io", "subjectaccessreviews"),
    ),
    _role(
        "system:basic-user",
        _rule(
            ["create"],
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
        ),
        _rule(["create"], "authentication.k8s.io", "selfsubjectreviews"),
    ),
    _role(
        "system:discovery",
        _get(
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            *_PROBES,
            "/openapi",
            "/openapi/*",
            "/version",
            "/version/",
        ),
    ),
    _role("system:monitoring", _get(*_PROBES, *(f"{path}/*" for path in _PROBES), "/metrics")),
    _role("system:public-info-viewer", _get(*_PROBES, "/version", "/version/")),
    _role(
        "system:service-account-issuer-discovery",
        _get("/.well-known/openid-configuration", "/openid/v1/jwks"),
    ),
    _binding("cluster-admin", MASTERS),
    _binding("system:basic-user", AUTHENTICATED),
    _binding("system:discovery", AUTHENTICATED),
    _binding("system:monitoring", "system:monitoring"),
    _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
    _binding("system:service-account-issuer-discovery", SERVICE_ACCOUNTS),
)


def ensure(store: Store) -> None:
    """Make and reconcile the objects in a store, all or none of them."""
    with store.transaction():
        for wanted in OBJECTS:
            name = wanted["metadata"]["name"]
            is_role = wanted["kind"] == "ClusterRole"
            key = Key(CLUSTER_ROLES if is_role else CLUSTER_ROLE_BINDINGS, "", name)
            stored = store.get(key)
            if stored is None:
                store.commit("ADDED", key, _made(wanted), None)
                continue
            old = as_object(stored.body)
            new = reconciled(wanted, old)
            if new.get("roleRef") != old.get("roleRef"):
                # A binding never changes its role, so it is another binding from here on.
                store.commit("DELETED", key, old, stored)
                store.commit("ADDED", key, _made(new), None)
            elif new != old:
                store.commit("MODIFIED", key, new, stored)


def reconciled(wanted: Object, found: Object) -> Object:
    """The object found, with all that is wanted of it."""
    meta = found["metadata"]
    annotations = meta.get("annotations") or {}
    if annotations.get(AUTOUPDATE) == "false":
        return found
    result = {
        **found,
        "metadata": {
            **meta,
            "labels": wanted["metadata"]["labels"] | (meta.get("labels") or {}),
            "annotations": wanted["metadata"]["annotations"] | annotations,
        },
    }
    if "roleRef" in wanted:
        result["roleRef"] = wanted["roleRef"]
        result["subjects"] = _with(found.get("subjects"), wanted["subjects"])
    elif "aggregationRule" in wanted:
        selectors = (found.get("aggregationRule") or {}).get("clusterRoleSelectors")
        wanted_selectors = wanted["aggregationRule"]["clusterRoleSelectors"]
        rule = {"clusterRoleSelectors": _with(selectors, wanted_selectors)}
        result["aggregationRule"] = rule
    else:
        lacking = uncovered(rules.read(found.get("rules")), rules.read(wanted["rules"]))
        result["rules"] = _with(found.get("rules"), rules.write(lacking))
    return result


def _with(found: list[Object] | None, wanted: Iterable[Object]) -> list[Object]:
    present = found or []
    return [*present, *(value for value in wanted if value not in present)]


def _made(wanted: Object) -> Object:
    meta = {key: dict(v) if isinstance(v, dict) else v for key, v in wanted["metadata"].items()}
    metadata.for_create(meta, generation=False)
    return {**wanted, "metadata": meta}
