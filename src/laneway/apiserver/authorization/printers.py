"""Cells of bindings that no path into the object can express, as a cluster prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from laneway.apiserver.authorization.authorizer import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS

Cell = Callable[[dict[str, Any]], str]


def role(binding: dict[str, Any]) -> str:
    """`ClusterRole/view`."""
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(binding: dict[str, Any]) -> str:
        found = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace') or ''}/{s.get('name', '')}" for s in found)
        return ", ".join(s.get("name", "") for s in found)

    return cell


CELLS: Mapping[tuple[str, str], Cell] = {
    (resource, column): cell
    for resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
    for column, cell in (
        ("Role", role),
        ("Users", _subjects("User")),
        ("Groups", _subjects("Group")),
        ("ServiceAccounts", _subjects("ServiceAccount")),
    )
}
"""By resource and column."""
