"""The kinds of access control: stored roles and bindings, and reviews, which are only answered."""

from __future__ import annotations

from typing import Any

from kapilite.authorization.authorizer import GROUP
from kapilite.builtin import schemas
from kapilite.kinds import Column, Kind

AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"


def _kind(group: str, kind: str, plural: str, *, namespaced: bool = False, **more: Any) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        schema=schemas.of_kind(f"{group.partition('.')[0]}.v1.{kind}"),
        **more,
    )


def _review(group: str, kind: str, *, namespaced: bool = False) -> Kind:
    return _kind(
        group, kind, f"{kind.lower()}s", namespaced=namespaced, verbs=("create",), stored=False
    )


def _column(name: str, json_path: str = "", kind: str = "string", priority: int = 0) -> Column:
    return Column(name=name, type=kind, json_path=json_path, priority=priority)


_ROLE = (_column("Created At"),)
_BINDING = (
    _column("Role"),
    _column("Age", ".metadata.creationTimestamp", "date"),
    _column("Users", priority=1),
    _column("Groups", priority=1),
    _column("ServiceAccounts", priority=1),
)

KINDS: tuple[Kind, ...] = (
    _kind(GROUP, "ClusterRole", "clusterroles", columns=_ROLE),
    _kind(GROUP, "ClusterRoleBinding", "clusterrolebindings", columns=_BINDING),
    _kind(GROUP, "Role", "roles", namespaced=True, columns=_ROLE),
    _kind(GROUP, "RoleBinding", "rolebindings", namespaced=True, columns=_BINDING),
    _review(AUTHENTICATION, "SelfSubjectReview"),
    _review(AUTHENTICATION, "TokenReview"),
    _review(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _review(AUTHORIZATION, "SelfSubjectAccessReview"),
    _review(AUTHORIZATION, "SelfSubjectRulesReview"),
    _review(AUTHORIZATION, "SubjectAccessReview"),
)
