"""Services and what is behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers.parts import (
    NONE,
    UNKNOWN,
    Cell,
    Object,
    get,
    items,
    labels,
    mapping,
    number,
    selector,
    shortened,
    text,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_SLICES = "endpointslices.discovery.k8s.io"


def _cluster_ip(service: Object, _: datetime) -> str:
    return next(iter(texts(service, "spec", "clusterIPs")), NONE)


def external_ip(service: Object, _: datetime) -> str:
    """Where a service is reached from outside."""
    given = ",".join(texts(service, "spec", "externalIPs"))
    match text(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return given or NONE
        case "LoadBalancer":
            entries = items(service, "status", "loadBalancer", "ingress")
            found = sorted({text(e, "ip") or text(e, "hostname") for e in entries} - {""})
            return ",".join([*found, *([given] if given else [])]) or "<pending>"
        case "ExternalName":
            return text(service, "spec", "externalName")
    return UNKNOWN


def ports(service: Object, _: datetime) -> str:
    """`80:30080/TCP`: port, node port and protocol of each."""
    found = []
    for port in items(service, "spec", "ports"):
        outside = number(port, "nodePort")
        where = f"{number(port, 'port')}:{outside}" if outside else f"{number(port, 'port')}"
        found.append(f"{where}/{text(port, 'protocol')}")
    return ",".join(found) or NONE


def _addresses(endpoints: Object) -> Iterator[str]:
    for subset in items(endpoints, "subsets"):
        hosts = [text(a, "ip") for a in items(subset, "addresses")]
        numbers = [number(p, "port") for p in items(subset, "ports")]
        if not numbers:
            yield from hosts
        for port in numbers:
            yield from (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts)


def _slice_ports(obj: Object, _: datetime) -> str:
    found = items(obj, "ports")
    if not found:
        return "<unset>"
    return shortened(
        str(number(p, "port")) if get(p, "port") is not None else text(p, "name") or "*"
        for p in found
    )


def _slice_endpoints(obj: Object, _: datetime) -> str:
    found = [a for e in items(obj, "endpoints") for a in texts(e, "addresses")]
    return shortened(found) if found else "<unset>"


CELLS: dict[tuple[str, str], Cell] = {
    ("endpoints", "Endpoints"): lambda obj, _: shortened(_addresses(obj)),
    ("services", "Cluster-IP"): _cluster_ip,
    ("services", "External-IP"): external_ip,
    ("services", "Port(s)"): ports,
    ("services", "Selector"): lambda obj, _: labels(mapping(obj, "spec", "selector")),
    ("networkpolicies.networking.k8s.io", "Pod-Selector"): lambda obj, _: selector(
        get(obj, "spec", "podSelector")
    ),
    (_SLICES, "Endpoints"): _slice_endpoints,
    (_SLICES, "Ports"): _slice_ports,
}
