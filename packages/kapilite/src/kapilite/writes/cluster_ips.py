"""Cluster IPs and node ports: each belongs to one Service, although nothing listens on it here."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kapilite.problems import invalid, rejected
from kapilite.storage.events import as_object

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object

SERVICES = "services"
NODE_PORTS = range(30000, 32768)
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_OUTSIDE = (
    "provided port is not in the valid range. The range of valid ports is "
    f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
)


def allot(store: Store, kind: Kind, obj: Object, old: Object | None) -> None:
    """Give a Service the node ports that it lacks; refuse it what another one has."""
    if kind.resource != SERVICES:
        return
    _require_free_address(store, kind, obj, old)
    if obj["spec"].get("type") in _WITH_NODE_PORTS:
        _allot_ports(store, kind, obj, old)


def _require_free_address(store: Store, kind: Kind, obj: Object, old: Object | None) -> None:
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


def _allot_ports(store: Store, kind: Kind, obj: Object, old: Object | None) -> None:
    ports = obj["spec"].get("ports") or ()
    held = {(p.get("protocol"), p.get("port")): n for p in _ports(old) if (n := p.get("nodePort"))}
    asked = {port.get("nodePort") for port in ports}
    for port in ports:
        kept = held.get((port.get("protocol"), port.get("port")))
        if kept and not port.get("nodePort") and kept not in asked:
            port["nodePort"] = kept
    if all(port.get("nodePort") in held.values() for port in ports):
        return
    taken = _taken(store)
    free = [number for number in NODE_PORTS if number not in taken | asked]
    random.shuffle(free)
    for index, port in enumerate(ports):
        number = port.get("nodePort") or 0
        if number in held.values():
            continue
        if number and number not in NODE_PORTS:
            why = _OUTSIDE
        elif number in taken:
            why = "provided port is already allocated"
        elif not number and not free:
            why = "failed to allocate a nodePort: range is full"
        else:
            port["nodePort"] = number or free.pop()
            continue
        problem = invalid(f"spec.ports[{index}].nodePort", number, why)
        raise rejected(kind, obj["metadata"]["name"], [problem])


def _taken(store: Store) -> set[int]:
    """The node ports of all Services."""
    bodies = (row.body for row in store.rows(SERVICES) if b'"nodePort"' in row.body)
    return {n for body in bodies for port in _ports(as_object(body)) if (n := port.get("nodePort"))}


def _ports(obj: Object | None) -> list[Object]:
    """The ports of a Service that are to have one on every node."""
    spec = obj["spec"] if obj else {}
    return (spec.get("ports") or []) if spec.get("type") in _WITH_NODE_PORTS else []
