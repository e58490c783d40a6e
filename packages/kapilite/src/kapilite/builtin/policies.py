"""What Kubernetes refuses in policies about the network of pods."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.builtin import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_TYPES = ("Egress", "Ingress")
_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def network_policy(obj: Object, _: Object | None) -> Iterator[Problem]:
    """What is wrong with a NetworkPolicy."""
    spec = obj.get("spec") or {}
    yield from rules.selector("spec.podSelector", spec.get("podSelector") or {})
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _port(f"{path}.ports[{number}]", port)
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(f"{path}.{peers}[{number}]", peer)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(_TYPES):
        yield problem.invalid(
            "spec.policyTypes", kinds, "may not specify more than two policyTypes"
        )
    for index, kind in enumerate(kinds[: len(_TYPES)]):
        if kind not in _TYPES:
            yield problem.not_supported(f"spec.policyTypes[{index}]", kind, _TYPES)


def _port(path: str, port: Object) -> Iterator[Problem]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in rules.PROTOCOLS:
        yield problem.not_supported(f"{path}.protocol", protocol, rules.PROTOCOLS)
    if number is not None:
        yield from rules.port_or_name(f"{path}.port", number)
    if end is None:
        return
    if number is None:
        detail = "may not be specified when `port` is not specified"
    elif not isinstance(number, int):
        detail = "may not be specified when `port` is non-numeric"
    elif end < number:
        detail = "must be greater than or equal to `port`"
    else:
        yield from rules.port_number(f"{path}.endPort", end)
        return
    yield problem.invalid(f"{path}.endPort", end, detail)


def _peer(path: str, peer: Object) -> Iterator[Problem]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if _has(peer, name)]
    for name in given:
        if name != "ipBlock":
            yield from rules.selector(f"{path}.{name}", peer[name])
    if not given:
        yield problem.required(path, "must specify a peer")
    elif "ipBlock" in given:
        yield from _block(f"{path}.ipBlock", peer["ipBlock"])
        if len(given) > 1:
            yield problem.forbidden(path, "may not specify both ipBlock and another peer")


def _has(peer: Object, name: str) -> bool:
    return peer.get(name) is not None


def _block(path: str, block: Object) -> Iterator[Problem]:
    text = block.get("cidr", "")
    if not text:
        yield problem.required(f"{path}.cidr")
        return
    network = _network(text)
    if network is None:
        yield problem.invalid(f"{path}.cidr", text, _CIDR)
    for index, inner in enumerate(block.get("except") or ()):
        excepted = _network(inner)
        if excepted is None:
            yield problem.invalid(f"{path}.except[{index}]", inner, _CIDR)
        elif network is not None and not _is_inside(excepted, network):
            detail = "must be a strict subset of `cidr`"
            yield problem.invalid(f"{path}.except[{index}]", inner, detail)


def _network(text: str) -> _Network | None:
    address, mark, length = text.partition("/")
    # Neither a mask in words nor a zone is a prefix of Kubernetes'.
    if not mark or not length.isdecimal() or "%" in address:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_inside(inner: _Network, outer: _Network) -> bool:
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner != outer and inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner != outer and inner.subnet_of(outer)
    return False
