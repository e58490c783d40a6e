"""Kubernetes' own functions: regular expressions, URLs, addresses, named formats."""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from kapilite import names
from kapilite.cel.functions import declare
from kapilite.cel.standard import searched
from kapilite.cel.types import KINDS
from kapilite.cel.values import CelError, Optional
from kapilite.gotext import urls
from kapilite.schemas import formats, regex

_FOUND_LIMIT = 50_000


@declare("string.find(string) string")
def _find(text: str, pattern: str) -> str:
    match = searched(pattern, text)
    return match[0] if match else ""


@declare("string.findAll(string) list(string)", "string.findAll(string, int) list(string)")
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if searched(pattern, text) is None:
        return []
    wanted = limit if 0 <= limit < _FOUND_LIMIT else _FOUND_LIMIT + 1
    found = [match[0] for match in islice(_matches(pattern, text), wanted)]
    if len(found) > _FOUND_LIMIT:
        raise CelError(f"findAll would give more than {_FOUND_LIMIT} texts")
    return found


def _matches(pattern: str, text: str) -> Iterator[Any]:
    """All matches but the empty ones right behind another."""
    end = -1
    for match in regex.compiled(pattern).finditer(text):
        if match.end() > match.start() or match.start() != end:
            yield match
        end = match.end()


KINDS[urls.Url] = "kubernetes.URL"


@declare("url(string) url")
def _url(text: str) -> urls.Url:
    try:
        return urls.parse_request(text)
    except ValueError as error:
        why = f'URL parse error during conversion from string: parse "{text}": {error}'
        raise CelError(why) from error


declare("isURL(string) bool")(urls.is_request_uri)
declare("url.getScheme() string")(operator.attrgetter("scheme"))
declare("url.getHost() string")(operator.attrgetter("host"))
declare("url.getHostname() string")(operator.attrgetter("hostname"))
declare("url.getPort() string")(operator.attrgetter("port"))
declare("url.getEscapedPath() string")(operator.attrgetter("escaped_path"))
declare("url.getQuery() map(string, list(string))")(urls.Url.query)


class Ip(msgspec.Struct, frozen=True):
    address: Any

    def __str__(self) -> str:
        return str(self.address)


class Cidr(msgspec.Struct, frozen=True):
    interface: Any

    def __str__(self) -> str:
        return str(self.interface)


KINDS[Ip] = "net.IP"
KINDS[Cidr] = "net.CIDR"


def _parsed_ip(text: str) -> Ip:
    if "%" in text:
        raise CelError(f'IP address with zone value is not allowed: "{text}"')
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string') from error
    if address.version == 6 and address.ipv4_mapped:
        raise CelError(f'IPv4-mapped IPv6 address is not allowed: "{text}"')
    return Ip(address)


@declare("isIP(string) bool")
def _is_ip(text: str) -> bool:
    try:
        _parsed_ip(text)
    except CelError:
        return False
    return True


declare("ip(string) ip")(_parsed_ip)


@declare("@ip.isCanonical(string) bool")
def _is_canonical(text: str) -> bool:
    return str(_parsed_ip(text).address) == text


@declare("ip.family() int")
def _family(ip: Ip) -> int:
    return int(ip.address.version)


@declare("ip.isUnspecified() bool")
def _is_unspecified(ip: Ip) -> bool:
    return bool(ip.address.is_unspecified)


@declare("ip.isLoopback() bool")
def _is_loopback(ip: Ip) -> bool:
    return bool(ip.address.is_loopback)


@declare("ip.isLinkLocalMulticast() bool")
def _is_link_local_multicast(ip: Ip) -> bool:
    scope = "224.0.0.0/24" if ip.address.version == 4 else "ff02::/16"
    return ip.address in ipaddress.ip_network(scope)


@declare("ip.isLinkLocalUnicast() bool")
def _is_link_local_unicast(ip: Ip) -> bool:
    return bool(ip.address.is_link_local)


@declare("ip.isGlobalUnicast() bool")
def _is_global_unicast(ip: Ip) -> bool:
    address = ip.address
    special = (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == ipaddress.IPv4Address("255.255.255.255")
    )
    return not special


declare("string(ip) string", "string(cidr) string")(str)


@declare("cidr(string) cidr")
def _cidr(text: str) -> Cidr:
    address, slash, bits = text.partition("/")
    if not slash or not re.fullmatch("0|[1-9][0-9]*", bits):
        raise CelError(f'network address parse error during conversion from string: "{text}"')
    _parsed_ip(address)
    try:
        return Cidr(ipaddress.ip_interface(text))
    except ValueError as error:
        why = f'network address parse error during conversion from string: "{text}"'
        raise CelError(why) from error


@declare("isCIDR(string) bool")
def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except CelError:
        return False
    return True


@declare("cidr.containsIP(ip) bool")
def _contains_ip(cidr: Cidr, ip: Ip) -> bool:
    return ip.address in cidr.interface.network


@declare("cidr.containsIP(string) bool")
def _contains_ip_text(cidr: Cidr, text: str) -> bool:
    return _contains_ip(cidr, _parsed_ip(text))


@declare("cidr.containsCIDR(cidr) bool")
def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    outer, inner = cidr.interface.network, other.interface.network
    return bool(outer.version == inner.version and inner.subnet_of(outer))


@declare("cidr.containsCIDR(string) bool")
def _contains_cidr_text(cidr: Cidr, text: str) -> bool:
    return _contains_cidr(cidr, _cidr(text))


@declare("cidr.ip() ip")
def _cidr_ip(cidr: Cidr) -> Ip:
    return Ip(cidr.interface.ip)


@declare("cidr.masked() cidr")
def _masked(cidr: Cidr) -> Cidr:
    return Cidr(ipaddress.ip_interface(str(cidr.interface.network)))


@declare("cidr.prefixLength() int")
def _prefix_length(cidr: Cidr) -> int:
    return int(cidr.interface.network.prefixlen)


class Format(msgspec.Struct, frozen=True):
    name: str


KINDS[Format] = "kubernetes.NamedFormat"

_Problems = Callable[[str], list[str]]


def _prefix(rule: _Problems) -> _Problems:
    """A dash at the end is forgiven, and with it what is before it."""
    return lambda text: rule(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _format_of(name: str, why: str) -> _Problems:
    return lambda text: [] if formats.is_format(name, text) else [why]


_NAMED: dict[str, _Problems] = {
    "dns1123Label": names.label,
    "dns1123LabelPrefix": _prefix(names.label),
    "dns1123Subdomain": names.subdomain,
    "dns1123SubdomainPrefix": _prefix(names.subdomain),
    "dns1035Label": names.label_1035,
    "dns1035LabelPrefix": _prefix(names.label_1035),
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "uri": lambda text: [] if urls.is_request_uri(text) else ["invalid URI for request"],
    "uuid": _format_of("uuid", "does not match the UUID format"),
    "byte": _format_of("byte", "invalid base64"),
    "date": _format_of("date", "invalid date"),
    "datetime": _format_of("datetime", "invalid datetime"),
}

for _format in _NAMED:
    declare(f"@format.{_format}() format")(lambda name=_format: Format(name))


@declare("@format.named(string) optional(format)")
def _named(name: str) -> Optional:
    return Optional(Format(name), present=True) if name in _NAMED else Optional()


@declare("format.validate(string) optional(list(string))")
def _validate(named: Format, text: str) -> Optional:
    problems = _NAMED[named.name](text)
    return Optional(list(problems), present=True) if problems else Optional()
