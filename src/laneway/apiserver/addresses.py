"""Cluster IPs: each belongs to one Service, although nothing listens on it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.apiserver.events import as_object
from laneway.apiserver.problems import invalid, rejected

if TYPE_CHECKING:
    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.objects import Object
    from laneway.apiserver.store import Store

SERVICES = "services"


def require_free(store: Store, kind: Kind, obj: Object, old: Object | None) -> None:
    """Refuse a Service with an address that another one has."""
    if kind.resource != SERVICES:
        return
    address = obj["spec"].get("clusterIP")
    if address in (None, "", "None") or (old and old["spec"].get("clusterIP") == address):
        return
    quoted = address.encode()
    for row in store.rows(SERVICES):
        # The byte search spares decoding the others.
        if quoted in row.body and as_object(row.body)["spec"].get("clusterIP") == address:
            text = "failed to allocate IP " + address + ": provided IP is already allocated"
            problem = invalid("spec.clusterIPs", [address], text)
            raise rejected(kind, obj["metadata"]["name"], [problem])
