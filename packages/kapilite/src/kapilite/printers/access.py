"""Identities, bindings and webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers.parts import Cell, Object, items, size, text

if TYPE_CHECKING:
    from datetime import datetime

_RBAC = "rbac.authorization.k8s.io"
_HOOKS = "admissionregistration.k8s.io"


def role(binding: Object, _: datetime) -> str:
    """`ClusterRole/admin`: what is bound."""
    return f"{text(binding, 'roleRef', 'kind')}/{text(binding, 'roleRef', 'name')}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Object, _: datetime) -> str:
        found = [s for s in items(binding, "subjects") if text(s, "kind") == kind]
        names = [
            f"{text(s, 'namespace')}/{text(s, 'name')}"
            if kind == "ServiceAccount"
            else text(s, "name")
            for s in found
        ]
        return ", ".join(names)

    return cell


CELLS: dict[tuple[str, str], Cell] = {
    ("serviceaccounts", "Secrets"): size("secrets"),
    (f"mutatingwebhookconfigurations.{_HOOKS}", "Webhooks"): size("webhooks"),
    (f"validatingwebhookconfigurations.{_HOOKS}", "Webhooks"): size("webhooks"),
}
for _plural in ("clusterrolebindings", "rolebindings"):
    CELLS |= {
        (f"{_plural}.{_RBAC}", "Role"): role,
        (f"{_plural}.{_RBAC}", "Users"): _subjects("User"),
        (f"{_plural}.{_RBAC}", "Groups"): _subjects("Group"),
        (f"{_plural}.{_RBAC}", "ServiceAccounts"): _subjects("ServiceAccount"),
    }
