"""URLs as Go reads them, which is neither as RFC 3986 nor as Python does."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BAD_HOST_ESCAPE = re.compile(r"%(?!25)[0-7]")
_HOST = re.compile(r"[A-Za-z0-9!$&'()*+,;=:\[\]<>\"._~%\u0080-\U0010ffff-]*")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_PORT = re.compile(r"(:[0-9]*)?", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/\[\]%-]*", re.ASCII)
_UNESCAPED_IN_PATHS = "/$&+,:;=@~"


class Url(NamedTuple):
    scheme: str = ""
    opaque: str = ""
    user: str = ""
    host: str = ""
    raw_path: str = ""
    raw_query: str = ""
    fragment: str = ""

    @property
    def hostname(self) -> str:
        host = self.host.removesuffix(self._port)
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        return self._port[1:]

    @property
    def _port(self) -> str:
        """With its colon; empty where there is none."""
        _, colon, behind = self.host.rpartition(":")
        return colon + behind if _PORT.fullmatch(colon + behind) else ""

    @property
    def escaped_path(self) -> str:
        if self.raw_path == "*" or _PATH.fullmatch(self.raw_path):
            return self.raw_path
        return quote(unquote_to_bytes(self.raw_path), safe=_UNESCAPED_IN_PATHS)

    def query(self) -> dict[str, list[str]]:
        """The parameters; those that are malformed are left out."""
        found: dict[str, list[str]] = {}
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
                continue
            key, _, value = (_plain(part.replace("+", " ")) for part in pair.partition("="))
            found.setdefault(key, []).append(value)
        return found


def parse_request(text: str) -> Url:
    """An absolute URI or path, as in an HTTP request; ValueError for anything else."""
    _parse(text, is_request=True)
    whole, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise ValueError(f"invalid URL escape in {text}")
    return _parse(whole, is_request=False)._replace(fragment=_plain(fragment))


def is_request_uri(text: str) -> bool:
    """Whether it is an absolute URI or path; what is behind a `#` is part of it."""
    try:
        _parse(text, is_request=True)
    except ValueError:
        return False
    return True


def _parse(text: str, *, is_request: bool) -> Url:
    if any(character < " " or character == "\x7f" for character in text):
        raise ValueError("net/url: invalid control character in URL")
    if text == "*":
        return Url(raw_path="*")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return Url(scheme, opaque=rest, raw_query=query)
    user = host = ""
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, behind = rest[2:].partition("/")
        rest = slash + behind
        user, at, host = authority.rpartition("@")
        if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
            raise ValueError("net/url: invalid userinfo")
        host = _host(scheme, host)
    if _BAD_ESCAPE.search(rest):
        raise ValueError(f"invalid URL escape in {text}")
    return Url(scheme, "", user, host, rest, query)


def _host(scheme: str, text: str) -> str:
    if "[" in text:
        return _address(text)
    is_strict = scheme in ("http", "https")
    _, colon, port = text.partition(":") if is_strict else text.rpartition(":")
    if colon and not _PORT.fullmatch(colon + port):
        raise ValueError(f'invalid port "{colon}{port}" after host')
    return _unescaped_host(text)


def _address(text: str) -> str:
    inner, bracket, port = text[1:].rpartition("]")
    if not text.startswith("[") or not bracket or not _PORT.fullmatch(port):
        raise ValueError("invalid IP-literal")
    name, _, zone = inner.partition("%25")
    name = _unescaped_host(name)
    if zone or "%25" in inner:
        if _BAD_ESCAPE.search(zone):
            raise ValueError("invalid URL escape")
        zone = "%" + _plain(zone)
    if ipaddress.ip_address(name + zone).version == 4:
        raise ValueError("invalid IP-literal")
    return f"[{name}{zone}]{port}"


def _unescaped_host(text: str) -> str:
    if not _HOST.fullmatch(text) or _BAD_ESCAPE.search(text) or _BAD_HOST_ESCAPE.search(text):
        raise ValueError("invalid character in host name")
    return _plain(text)


def _plain(text: str) -> str:
    return unquote_to_bytes(text).decode(errors="replace")
